#include "client/daemon_link.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <uroce/version.h>

#include "message/hello_messages.h"
#include "queues/layout.h"

namespace uroce::client {
namespace {

// Longer than the daemon's timeouts for an engine and for address resolution together.
constexpr std::chrono::seconds kSocketTimeout{30};
// So many requests without a reply, each of which may wait 3 s for an address, are handled within that time.
constexpr uint64_t kMostPosted = 8;

std::atomic<void (*)(const SlowCall&)> slow_call_watch{nullptr};

/// Connection::to(), watched. No process is known before there is a connection.
Result<message::Connection> connect_to(const std::string& path) {
  const auto watch = slow_call_watch.load();
  if (watch == nullptr) return message::Connection::to(path, kSocketTimeout);
  auto connection = message::Connection::to(path, kSlow);
  if (connection || connection.error().code != ETIMEDOUT) return connection;
  watch({.socket = path, .limit = kSocketTimeout});
  return message::Connection::to(path, kSocketTimeout);
}

/// Whether the process has CAP_NET_RAW and is not root with all rights, whom the daemon knows. The kernel takes some
/// milliseconds to close a packet socket.
bool needs_packet_socket() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  const auto has = [&](int capability) { return (sets[0].effective >> capability & 1) != 0; };
  return has(CAP_NET_RAW) && !(geteuid() == 0 && has(CAP_NET_ADMIN));
}

std::unexpected<Error> no_daemon(const std::string& path, const Error& error) {
  if (error.code == ENOENT || error.code == ECONNREFUSED) {
    const std::string where = path == message::kDefaultSocket ? "" : " --socket " + path;
    return fail(ENOENT, "no uroce daemon listens at " + path + "; start one with `uroced --demo" + where +
                            "`, or set UROCE_SOCKET to the socket of one that runs");
  }
  if (error.code == EACCES || error.code == EPERM) {
    return fail(EACCES, "this user may not connect to the uroce daemon at " + path +
                            "; the daemon's settings daemon.group and daemon.mode say who may");
  }
  return std::unexpected(error);
}

}  // namespace

std::string socket_path(const DaemonOptions& options) {
  if (!options.socket.empty()) return options.socket;
  const char* set = std::getenv("UROCE_SOCKET");
  return set != nullptr && *set != '\0' ? set : message::kDefaultSocket;
}

void watch_slow_calls(void (*told)(const SlowCall&)) { slow_call_watch = told; }

Result<std::unique_ptr<DaemonLink>> DaemonLink::open(const DaemonOptions& options) {
  const std::string path = socket_path(options);
  return greet(path, message::kProtocol);
}

Result<std::unique_ptr<DaemonLink>> DaemonLink::greet(const std::string& path, uint32_t protocol) {
  auto connection = connect_to(path);
  if (!connection) return no_daemon(path, connection.error());
  connection->set_timeouts(kSocketTimeout, kSocketTimeout);
  std::unique_ptr<DaemonLink> link(new DaemonLink(std::move(*connection), path, protocol));
  auto reply = link->call<message::HelloReply>(message::Op::hello,
                                               message::Hello{.protocol = protocol,
                                                              .queue_abi = queues::kAbiVersion,
                                                              .version = kVersion,
                                                              .oldest_queue_abi = queues::kOldestAbiVersion});
  // Daemons of version 22 know no ranges: such a one answers that it cannot read the hello of a later version.
  const bool of_before = !reply && reply.error().code == EPROTO && !link->broken_;
  if (of_before && protocol > message::kOldestProtocol) return greet(path, message::kOldestProtocol);
  if (!reply) return std::unexpected(reply.error());
  const message::Hello& daemon = reply->daemon;
  if (daemon.protocol < message::kOldestProtocol || daemon.protocol > protocol ||
      daemon.queue_abi < queues::kOldestAbiVersion || daemon.queue_abi > queues::kAbiVersion) {
    return fail(
        EPROTONOSUPPORT,
        fmt::format("the uroce daemon at {} is {} and answers with protocol {} and queues {}, which this library, {}, "
                    "did not offer; upgrade the daemon",
                    path, daemon.version.substr(0, 64), daemon.protocol, daemon.queue_abi, kVersion));
  }
  link->protocol_ = daemon.protocol;
  link->devices_ = std::move(reply->devices);
  link->daemon_version_ = std::move(reply->daemon.version);
  if ((reply->daemon.features & message::kTakesPacketSocket) != 0) link->prove_raw_packets();
  return link;
}

// A refusal matters to programs alone that ask for raw packets. They get the reason then.
void DaemonLink::prove_raw_packets() {
  if (!needs_packet_socket()) return;
  const message::Fd packets(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (packets) (void)call<message::Empty>(message::Op::prove_raw_packets, message::Empty{}, {{packets.get()}});
}

Result<std::shared_ptr<DaemonLink>> DaemonLink::of_program(const DaemonOptions& options) {
  static std::mutex& mutex = *new std::mutex;  // never destroyed: programs make calls until they exit
  static auto& links = *new std::map<std::string, std::weak_ptr<DaemonLink>>;
  const std::string path = socket_path(options);
  const auto usable_one = [&]() -> std::shared_ptr<DaemonLink> {
    const std::scoped_lock lock(mutex);
    auto link = links[path].lock();
    return link != nullptr && link->mine() && !link->lost() ? link : nullptr;
  };
  if (auto link = usable_one()) return link;
  auto made = open(options);  // without the lock: a daemon may take its time
  if (!made) return std::unexpected(made.error());
  if (auto link = usable_one()) return link;  // another thread was faster
  std::shared_ptr<DaemonLink> link(std::move(*made));
  const std::scoped_lock lock(mutex);
  links[path] = link;
  return link;
}

std::optional<uint32_t> DaemonLink::take_number() {
  const std::scoped_lock lock(mutex_);
  const auto free = std::ranges::find(numbers_, false);
  const auto number = static_cast<uint32_t>(free - numbers_.begin());
  if (number == message::kMaxDevices) return std::nullopt;
  numbers_.resize(std::max<std::size_t>(numbers_.size(), number + 1));
  numbers_[number] = true;
  return number;
}

void DaemonLink::give_back_number(uint32_t number) {
  const std::scoped_lock lock(mutex_);
  numbers_[number] = false;
}

std::unexpected<Error> DaemonLink::broken(int code, const std::string& why) {
  broken_ = true;
  mark_lost();
  connection_.shut_down();
  return fail(code, "the uroce daemon at " + socket_ + ": " + why);
}

Result<void> DaemonLink::usable() const {
  if (!mine()) return fail(ENODEV, "the device was opened before fork(); open it again in the child process");
  if (broken_) return fail(EIO, "the uroce daemon is gone; open the device again");
  return {};
}

void DaemonLink::watch_reply() const {
  const auto watch = slow_call_watch.load();
  if (watch == nullptr || connection_.readable_within(kSlow)) return;
  watch({.socket = socket_, .process = connection_.peer_process(), .limit = kSocketTimeout});
}

Result<void> DaemonLink::submit(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(mutex_);
  if (posted_ >= kMostPosted) {
    std::vector<std::byte> barrier;
    message::encode(barrier, message::RequestHeader{message::Op::barrier, next_sequence()});
    if (auto handled = exchange(barrier, {}, nullptr, nullptr); !handled) return std::unexpected(handled.error());
  }
  if (auto ok = usable(); !ok) return ok;
  const auto sent = connection_.send(bytes, {});
  if (sent) {
    ++posted_;
    return {};
  }
  if (sent.error().code == EMSGSIZE) return sent;
  if (sent.error().code == ETIMEDOUT) return broken(ETIMEDOUT, "it takes no request within 30 s");
  return broken(EIO, "it closed the connection; its log says why");
}

Result<std::span<const std::byte>> DaemonLink::exchange(std::span<const std::byte> bytes, std::span<const int> fds,
                                                        std::vector<message::Fd>* received, DeviceSlot* device) {
  if (auto ok = usable(); !ok) return std::unexpected(ok.error());
  // A daemon that refuses a connection sends the reason and closes. Read that reason even when send() failed.
  const auto sent = connection_.send(bytes, fds);
  if (!sent && sent.error().code == EMSGSIZE) return std::unexpected(sent.error());
  watch_reply();
  auto packet = connection_.receive();
  if (!packet) {
    if (packet.error().code == ETIMEDOUT)
      return broken(ETIMEDOUT, "no reply within 30 s; if it stands still, restart it");
    return broken(EIO, "it closed the connection; its log says why");
  }
  packet_ = std::move(*packet);
  message::Reader reader(packet_.bytes);
  message::ReplyHeader header;
  reader(header);
  if (!reader.good() || header.chunks.size() > (device != nullptr ? packet_.fds.size() : 0)) {
    return broken(EPROTO, "a reply has no valid header; is the daemon of this release?");
  }
  if (header.sequence != sequence_ && header.error == 0)
    return broken(EPROTO, "a reply has the sequence number of another request");
  posted_ = 0;  // all before it were handled
  for (std::size_t i = 0; i < header.chunks.size(); ++i) {
    const auto mapped = device->chunks.map(header.chunks[i], packet_.fds[i]);
    if (!mapped) return broken(mapped.error().code, mapped.error().text);
  }
  if (header.error != 0) return fail(header.error, std::move(header.text));
  if (received != nullptr) {
    received->clear();
    for (std::size_t i = header.chunks.size(); i < packet_.fds.size(); ++i) {
      received->push_back(std::move(packet_.fds[i]));
    }
  }
  packet_.fds.clear();
  return reader.rest();
}

Result<std::byte*> DaemonLink::memory(const DeviceSlot& device, const message::Place& place) {
  const std::scoped_lock lock(mutex_);
  if (std::byte* const at = device.chunks.at(place); at != nullptr) return at;
  return broken(EPROTO, "a reply names queue memory that the daemon never sent");
}

}  // namespace uroce::client
