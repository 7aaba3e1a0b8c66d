// Messages in and out of a client's calls, for the files that implement them.
#pragma once

#include <cerrno>

#include <fmt/format.h>

#include "service/client.h"

namespace uroce::service {

template <class T>
Result<Client::Reply> Client::reply(const T& value) {
  Reply out;
  message::encode(out.body, value);
  return out;
}

template <class Request, class Work>
Result<Client::Reply> Client::with(std::span<const std::byte> bytes, Work work) {
  Request request;
  if (!message::decode(bytes, request)) {
    malformed_ = true;
    return fail(EPROTO, fmt::format("a message of {} bytes is not what its kind holds", bytes.size()));
  }
  return work(request);
}

}  // namespace uroce::service
