#include "service/predecessor.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

#include <fmt/format.h>

#include <uroce/version.h>

#include "message/hello_messages.h"
#include "queues/layout.h"
#include "service/estate_versions.h"
#include "service/succession.h"

namespace uroce::service {
namespace {

using message::kStepPatience;
using message::Op;
using message::Step;

}  // namespace

Result<std::unique_ptr<Predecessor>> Predecessor::find(const std::string& socket) {
  auto connection = message::Connection::to(socket, kStepPatience);
  if (!connection) {
    const int code = connection.error().code;
    if (code != ENOENT && code != ECONNREFUSED) return std::unexpected(connection.error());
    return fail(code,
                fmt::format("{}: no uroced runs on this socket, so there is none to replace; leave --replace out, "
                            "or name its socket (--socket)",
                            socket));
  }
  connection->set_timeouts(kStepPatience, kStepPatience);
  std::unique_ptr<Predecessor> out(new Predecessor(std::make_unique<message::Connection>(std::move(*connection))));
  if (auto ok = out->greet(); !ok) return fail(ok.error().code, fmt::format("{}: {}", socket, ok.error().text));
  return out;
}

std::unique_ptr<Predecessor> Predecessor::that_left(message::Fd left) {
  std::unique_ptr<Predecessor> out(new Predecessor(std::make_unique<message::Connection>(std::move(left))));
  out->ended_ = true;
  return out;
}

Result<std::vector<std::byte>> Predecessor::call(Op op, const auto& request, std::span<const int> fds) {
  std::vector<std::byte> bytes;
  message::encode(bytes, message::RequestHeader{.op = op, .sequence = ++sequence_});
  message::encode(bytes, request);
  if (auto sent = connection_->send(bytes, fds); !sent) return std::unexpected(sent.error());
  auto packet = connection_->receive();
  if (!packet) return std::unexpected(packet.error());
  message::Reader reader(packet->bytes);
  message::ReplyHeader header;
  reader(header);
  if (!reader.good() || header.sequence != sequence_)
    return fail(EPROTO, "the running daemon's answer does not decode");
  if (header.error != 0) return fail(header.error, header.text);
  const auto rest = reader.rest();
  return std::vector<std::byte>(rest.begin(), rest.end());
}

Result<void> Predecessor::greet() {
  const auto answer = call(Op::hello, message::Hello{.queue_abi = queues::kAbiVersion,
                                                     .version = kVersion,
                                                     .oldest_queue_abi = queues::kOldestAbiVersion});
  message::HelloReply reply;
  if (answer && !message::decode(*answer, reply)) return fail(EPROTO, "the running daemon's hello does not decode");
  // A daemon of protocol 22 reads no newer hello.
  const bool older = answer ? (reply.daemon.features & message::kHandsOver) == 0 : answer.error().code == EPROTO;
  if (older) {
    const std::string version = answer ? fmt::format(", uroced {},", reply.daemon.version.substr(0, 64)) : "";
    return fail(EOPNOTSUPP,
                fmt::format("the running daemon{} is too old to hand over; restart the ordinary way: stop it, "
                            "and start the new one",
                            version));
  }
  if (!answer) return std::unexpected(answer.error());
  version_ = reply.daemon.version.substr(0, 64);
  return {};
}

Result<message::Belongings> Predecessor::take_over(std::vector<message::DeviceFacts> devices) {
  if (ended_) {
    if (auto same = check_facts(devices); !same) return std::unexpected(same.error());
  } else {
    prove_rights();
    const auto answer = call(Op::take_over, message::TakeOver{.version = kVersion, .devices = std::move(devices)});
    if (!answer) return std::unexpected(answer.error());
  }
  return link_.receive_belongings();
}

Result<void> Predecessor::ready() {
  if (ended_) return {};
  std::vector<std::byte> body;
  message::encode(body, own_versions());
  return link_.send(Step::ready, body);
}

void Predecessor::prove_rights() {
  const message::Fd packets(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int fd = packets.get();
  if (packets) (void)call(Op::prove_raw_packets, message::Empty{}, {&fd, 1});
}

Result<void> Predecessor::check_facts(const std::vector<message::DeviceFacts>& mine) {
  const auto packet = link_.receive({Step::facts}, kStepPatience);
  if (!packet) return std::unexpected(packet.error());
  message::TakeOver theirs;
  if (!message::decode(packet->body, theirs)) return fail(EPROTO, "the facts of the daemon before do not decode");
  version_ = theirs.version.substr(0, 64);
  return check_same(theirs.devices, mine);
}

Result<message::StandingSince> Predecessor::bequeathed() {
  const auto packet = link_.receive({Step::bequeathed}, kStepPatience);
  if (!packet) return std::unexpected(packet.error());
  message::StandingSince since;
  if (!message::decode(packet->body, since)) since = {.at_ns = message::now_for_both_ns()};
  return since;
}

Result<void> Predecessor::imported() {
  if (auto sent = ended_ ? Result<void>() : link_.send(Step::imported); !sent) return sent;
  const auto packet = link_.receive({Step::go}, kStepPatience);
  if (!packet) return std::unexpected(packet.error());
  return {};
}

}  // namespace uroce::service
