// How an operation of the protocol is served: its request decoded, its reply encoded.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "message/protocol.h"
#include "message/public_types.h"
#include "service/client_state.h"

namespace uroce::service {

struct Reply {
  std::vector<std::byte> body{};
  std::vector<int> fds{};            ///< descriptors to send, after those of the chunks
  std::vector<message::Fd> owned{};  ///< owns some of `fds`, and closes them once the reply is sent
};

template <class T>
Result<Reply> reply(const ClientState& client, const T& value) {
  Reply out;
  message::encode(out.body, value, client.program.protocol);
  return out;
}

/// A reply without content: success or an error.
inline Result<Reply> done(const Result<void>& result) {
  if (!result) return std::unexpected(result.error());
  return Reply{};
}

struct Call {
  message::Op op{};
  std::span<const std::byte> body{};
  std::span<const message::Fd> fds{};
  bool answered = true;    ///< its sender gets a reply
  uint32_t qpn = 0;        ///< set by the handler: of the queue pair concerned
  bool malformed = false;  ///< set by the handler: the connection ends after the reply
};

/// The precondition of an operation.
enum class Needs {
  nothing,
  hello,
  device,              ///< ClientState::session
  connection_manager,  ///< Program::connections, opened with the first such operation
};

struct Operation {
  message::Op op;
  Needs needs;
  Result<Reply> (*serve)(ClientState& client, Call& call);
};

/// Decodes a Request and passes it to `Handler`, which may also take the call.
template <class Request, auto Handler>
Result<Reply> serve(ClientState& client, Call& call) {
  Request request;
  if (!message::decode(call.body, request, client.program.protocol)) {
    call.malformed = true;
    return fail(EPROTO, fmt::format("the message for operation {} has {} bytes that do not decode",
                                    static_cast<uint32_t>(call.op), call.body.size()));
  }
  if constexpr (std::is_invocable_v<decltype(Handler), ClientState&, const Request&, Call&>) {
    return Handler(client, request, call);
  } else {
    return Handler(client, request);
  }
}

}  // namespace uroce::service
