#include "pmd_glue/kif/interface.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pmd_glue/kif/kernel_support.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"

namespace uroce::glue::kif {

namespace {
/// refresh() is called 50 times a second while the port is down.
constexpr uint32_t kLooksBetweenTries = 50;

std::string packet_name(const std::string& device, std::size_t queue) {
  return fmt::format("{} packet socket {}", device, queue);
}
}  // namespace

Result<std::unique_ptr<Interface>> Interface::open(const KernelInterface& on) {
  const std::string& name = on.interface;
  const auto mac = netdev_mac(name);
  if (!mac) {
    return fail(mac.error().code,
                fmt::format("interface {}: {}; name one that `ip link` lists", name, mac.error().text));
  }
  auto out = std::make_unique<Interface>();
  out->name_ = name;
  out->super_frames_ = on.super_frames;
  out->kernel_knows_ = kernel_knows_super_frames();
  out->mac_ = *mac;
  out->index_ = if_nametoindex(name.c_str());
  return out;
}

Result<Socket> Interface::open_socket(const Socket* first) const {
  auto socket = Socket::open(options_);
  if (!socket || sockets_ == 1) return socket;
  if (auto ok = socket->share(first, sockets_, name_.get()); !ok) return std::unexpected(ok.error());
  return socket;
}

Result<void> Interface::start(uint16_t queues, uint16_t vlan, rte_mempool* pool) {
  options_ = {.interface = name_.get(), .vlan = vlan};
  sockets_ = queues;
  for (uint16_t i = 0; i < queues; ++i) {
    auto socket = open_socket(queues_.empty() ? nullptr : &queues_.front()->socket);
    if (!socket) return std::unexpected(socket.error());
    add_queue(std::move(*socket), pool);
  }
  return awaken();
}

void Interface::add_queue(Socket socket, rte_mempool* pool) {
  queues_.push_back(std::make_unique<Queue>(std::move(socket), pool, options_.vlan, super_frames_ && kernel_knows_));
}

Result<void> Interface::inherit(uint16_t queues, uint16_t vlan, rte_mempool* pool, message::Belongings& belongings,
                                const std::string& device) {
  options_ = {.interface = name_.get(), .vlan = vlan};
  sockets_ = queues;
  for (uint16_t i = 0; i < queues; ++i) {
    auto socket = Socket::adopt(belongings.take(packet_name(device, i)), options_);
    if (!socket) return std::unexpected(socket.error());
    add_queue(std::move(*socket), pool);
  }
  return {};
}

Result<void> Interface::awaken() {
  for (const auto& queue : queues_) {
    if (auto ok = queue->readable.watch(queue->socket.fd()); !ok) return ok;
  }
  return {};
}

void Interface::lend(message::Belongings& belongings, const std::string& device) const {
  for (std::size_t i = 0; i < queues_.size(); ++i) belongings.lend(packet_name(device, i), queues_[i]->socket.fd());
}

// Sockets that share flows were bound for good, so new ones take their places, all of them or none.
Result<void> Interface::attach_again() {
  if (sockets_ == 1) return queues_.front()->socket.bind_again(options_);
  std::vector<Socket> fresh;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    auto socket = open_socket(fresh.empty() ? nullptr : &fresh.front());
    if (!socket) return std::unexpected(socket.error());
    fresh.push_back(std::move(*socket));
  }
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = *queues_[i];
    if (auto ok = queue.socket.replace_by(std::move(fresh[i]), options_.interface); !ok) return ok;
    if (auto ok = queue.readable.watch(queue.socket.fd()); !ok) return ok;
  }
  return {};
}

// A socket knows best what it is on: an interface may go and come back with the same index between two looks.
unsigned Interface::attached() const {
  const unsigned first = queues_.empty() ? 0 : queues_.front()->socket.interface_index();
  const auto same = [first](const auto& queue) { return queue->socket.interface_index() == first; };
  return std::ranges::all_of(queues_, same) ? first : 0;
}

bool Interface::follow(unsigned index) {
  if (attached() == index) {
    said_detached_ = false;
    looks_to_wait_ = 0;
    return true;
  }
  if (looks_to_wait_ > 1) {
    --looks_to_wait_;
    return false;
  }
  if (auto ok = attach_again(); !ok) {
    looks_to_wait_ = kLooksBetweenTries;
    say_detached(ok.error());
    return false;
  }
  index_.store(index, std::memory_order_relaxed);
  returns_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Binding a socket again needs no right, and opening one does.
void Interface::say_detached(const Error& why) {
  if (std::exchange(said_detached_, true)) return;
  if (why.code != EPERM && why.code != EACCES)
    return note(fmt::format("{}; the port is down until that succeeds, which is tried every second", why.text));
  note(fmt::format(
      "interface {}: it came back, and several engines need new sockets for that, which this program may not open any "
      "more (CAP_NET_RAW); the port is down until the program starts again",
      options_.interface));
}

bool Interface::refresh() {
  const unsigned index = name_.look(attached());
  options_.interface = name_.get();
  const bool follows = index != 0 && follow(index);
  index_.store(index, std::memory_order_relaxed);
  for (const auto& queue : queues_) {
    const uint32_t lost = queue->socket.take_lost();
    queue->lost.fetch_add(lost, std::memory_order_relaxed);
    if (lost != 0 && !std::exchange(said_lost_, true)) say_lost(*queue);
    if (sending() != Sending::super_frames || queue->sender.super_frames()) continue;
    refused_.store(true, std::memory_order_relaxed);
    note(fmt::format("interface {}: the kernel refuses its super-frames (UDP segmentation); frames leave one by one",
                     options_.interface),
         NoteLevel::info);
  }
  return follows && netdev_running(options_.interface).value_or(false);
}

void Interface::say_lost(const Queue& queue) const {
  const uint32_t room = queue.socket.receive_buffer();
  const std::string begin = fmt::format(
      "interface {}: frames were lost (kif_rx_lost), because no more than {} KiB wait", options_.interface, room >> 10);
  if (room >= kFullReceiveBuffer) {
    return note(begin + "; the engine was kept from its core for too long, or there are too few engines");
  }
  note(
      fmt::format("{}; raise net.core.rmem_max (sysctl -w net.core.rmem_max={}), or give the program CAP_NET_ADMIN, "
                  "and start it again",
                  begin, kReceiveBuffer));
}

std::vector<std::pair<std::string, uint64_t>> Interface::counters(uint16_t queue) const {
  if (queue >= queues_.size()) return {};
  const Queue& q = *queues_[queue];
  const SendCounters& tx = q.sender.counters();
  const ReceiveCounters& rx = q.receiver.counters();
  return {{"kif_tx_super_frames", tx.super_frames.get()},
          {"kif_tx_super_segments", tx.super_segments.get()},
          {"kif_tx_dropped", tx.dropped.get()},
          {"kif_rx_super_frames", rx.super_frames.get()},
          {"kif_rx_super_segments", rx.super_segments.get()},
          {"kif_rx_super_copied", rx.super_copied.get()},
          {"kif_rx_bad_kind", rx.bad_kind.get()},
          {"kif_rx_bad_headers", rx.bad_headers.get()},
          {"kif_rx_bad_lengths", rx.bad_lengths.get()},
          {"kif_rx_bad_segment", rx.bad_segment.get()},
          {"kif_rx_too_long", rx.too_long.get()},
          {"kif_rx_buffers_missing", rx.buffers_missing.get()},
          {"kif_rx_lost", q.lost.load(std::memory_order_relaxed)}};
}

Sending Interface::sending() const {
  if (!super_frames_) return Sending::single_by_choice;
  if (!kernel_knows_) return Sending::single_by_kernel;
  return refused_.load(std::memory_order_relaxed) ? Sending::single_refused : Sending::super_frames;
}

std::string Interface::description() const {
  if (queues_.empty()) return {};
  const auto how = [this] {
    switch (sending()) {
      case Sending::single_by_choice: return "single frames (super_frames=no)";
      case Sending::single_by_kernel:
        return "single frames (this kernel has no UDP segmentation for packet sockets; Linux 6.2 has)";
      case Sending::single_refused: return "single frames (the kernel refused super-frames)";
      default: return "super-frames (UDP segmentation)";
    }
  };
  return fmt::format("{}, up to {} KiB wait for each engine", how(), queues_.front()->socket.receive_buffer() >> 10);
}

}  // namespace uroce::glue::kif
