#include "world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/memory.h"
#include "wire/packet.h"

namespace uroce::test {

bool Port::run_in_place(uint32_t, const std::function<void(Nanos)>& work) {
  if (!asleep) return false;
  ++visits;
  work(clock());
  return true;
}

void Port::wait_step() {
  ++steps;
  if (world_.mode_ == World::Mode::embedded) {
    world_.poll();
  } else {
    std::this_thread::sleep_for(World::kNap);
  }
}

bool Port::runs_engines_here() const { return world_.mode_ == World::Mode::embedded; }

Result<EthAddr> Port::resolve(const Gid&, const Gid& dgid, uint32_t user, std::chrono::nanoseconds timeout) {
  ++resolves;
  resolved_for = user;
  if (unanswered) {
    if (timeout > std::chrono::nanoseconds(0)) ++waits;
    return fail(EHOSTUNREACH, "nobody answers");
  }
  const std::scoped_lock lock(world_.mutex_);
  for (const auto& port : world_.ports_) {
    const auto gids = port->device_->gids();
    if (std::ranges::find(gids, dgid) != gids.end()) return port->device_->config().mac;
  }
  return fail(EHOSTUNREACH, "nobody answers");
}

Result<Gid> Port::source_for(const Gid& dgid) {
  for (const Gid& gid : device_->gids()) {
    if (gid.is_ipv4() == dgid.is_ipv4()) return gid;
  }
  return fail(ENETUNREACH, "no address of that family");
}

Nanos Port::clock() const {
  const std::scoped_lock lock(world_.mutex_);
  return world_.now_;
}

bool Port::poll(Nanos now) {
  bool any = false;
  if (frozen) return any;
  for (uint32_t index = 0; index < device_->engines(); ++index) {
    transport::Engine& engine = device_->engine(index);
    std::deque<Frame> frames;
    frames.swap(inboxes_[index]);
    for (const Frame& frame : frames) {
      const transport::RxFrame received{frame};
      if (wire::peek(frame).kind != wire::Peek::Kind::other) engine.on_frames({&received, 1}, now);
      engine.on_raw_frames({&received, 1}, now);
      any = true;
    }
    any |= engine.poll(*sinks_[index], now);
    for (const SentFrame& frame : sinks_[index]->take()) world_.deliver(*this, frame);
  }
  return any;
}

World::~World() { stop(); }

void World::stop() {
  stopping_ = true;
  if (poller_.joinable()) poller_.join();
  for (const auto& port : ports_) port->device_->shut_down();
}

control::Device& World::add(control::DeviceConfig config) {
  const auto number = static_cast<uint8_t>(ports_.size() + 1);
  if (config.name.empty()) config.name = "uroce" + std::to_string(number - 1);
  if (config.gids.empty()) {
    Gid v6;
    v6.bytes[0] = 0xfe;
    v6.bytes[1] = 0x80;
    v6.bytes[15] = number;
    config.gids = {gid(number - 1u), v6};
  }
  if (config.mac == EthAddr{}) config.mac = {{2, 0, 0, 0, 0, number}};
  if (config.seed == 0) config.seed = number;
  auto port = std::make_unique<Port>(*this);
  auto device = control::Device::create(std::move(config), *port);
  require(device.has_value(), device ? "" : device.error().text);
  port->device_ = *device;
  port->inboxes_.resize((*device)->engines());
  for (uint32_t i = 0; i < (*device)->engines(); ++i) port->sinks_.push_back(std::make_unique<Port::Sink>(*port));
  {
    const std::scoped_lock lock(mutex_);
    ports_.push_back(std::move(port));
  }
  if (mode_ == Mode::threaded && !poller_.joinable()) {
    poller_ = std::thread([this] { run(); });
  }
  return **device;
}

void World::run() {
  constexpr int kPatience = 1000;
  for (int idle = 0; !stopping_;) {
    idle = poll() ? 0 : idle + 1;
    if (idle > kPatience) std::this_thread::sleep_for(kNap);
  }
}

bool World::poll() {
  bool any = false;
  {
    const std::scoped_lock lock(mutex_);
    now_ = mode_ == Mode::embedded ? now_ + std::chrono::microseconds(1) : machine_();
    for (const auto& port : ports_) any |= port->poll(now_);
  }
  if (turn_ && std::this_thread::get_id() == maker_) turn_();
  return any;
}

void World::deliver(Port& from, const SentFrame& frame) {
  if (frame.bytes.size() > from.longest) return;
  const auto peek = wire::peek(frame.bytes);
  const auto to = [&](Port& port) {
    // Each engine has the rules, and delivers what they give to its own queue pairs.
    if (peek.dest_qpn == kMulticastQpn || peek.kind == wire::Peek::Kind::other) {
      for (auto& inbox : port.inboxes_) inbox.push_back(frame.bytes);
      return;
    }
    const uint32_t index = peek.dest_qpn & ((1u << port.device_->index_bits()) - 1);
    if (index < port.inboxes_.size()) port.inboxes_[index].push_back(frame.bytes);
  };
  if (peek.dest_qpn == transport::kGsiQpn) management_.push_back(frame.bytes);
  std::memcpy(from.last_destination.bytes.data(), frame.bytes.data(), 6);
  if (frame.loopback) {
    to(from);
    return;
  }
  for (const auto& port : ports_) {
    const auto& mac = port->device_->config().mac.bytes;
    const auto* destination = reinterpret_cast<const uint8_t*>(frame.bytes.data());
    const bool group = (*destination & 1) != 0;
    if (port.get() != &from && (group || std::equal(mac.begin(), mac.end(), destination))) to(*port);
  }
}

}  // namespace uroce::test
