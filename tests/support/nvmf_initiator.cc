#include "nvmf_initiator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace uroce::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 30s;
constexpr uint64_t kReceive = uint64_t{1} << 32;

template <class T>
T good(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::vector<std::byte> request_of(uint16_t queue_id, uint32_t entries) {
  nvme::CmRequest request{};
  request.queue_id = queue_id;
  request.host_receive_size = static_cast<uint16_t>(entries);
  request.host_send_size = static_cast<uint16_t>(entries - 1);
  const auto bytes = std::as_bytes(std::span(&request, 1));
  return {bytes.begin(), bytes.end()};
}

nvme::Command fabrics(uint8_t type) {
  nvme::Command command{};
  command.opcode = nvme::kFabrics;
  command.nsid = type;
  return command;
}

}  // namespace

InitiatorHost::InitiatorHost(const DaemonOptions& daemon, const std::string& device, std::function<void()> run)
    : own(good(ConnectionManager::open(daemon))),
      connections(*own),
      channel(good(connections.create_channel())),
      context(good(open_daemon_device(device, daemon))),
      pd(good(context.create_pd())),
      progress(std::move(run)) {}

InitiatorHost::InitiatorHost(ConnectionManager& others, Context opened, std::function<void()> run)
    : connections(others),
      channel(good(connections.create_channel())),
      context(std::move(opened)),
      pd(good(context.create_pd())),
      progress(std::move(run)) {}

std::optional<CmEvent> InitiatorHost::take() {
  auto event = channel.take();
  // A target that closes before the RTU has reached it sends a REJ.
  const bool end = event && (event->type == CmEventType::disconnected || event->type == CmEventType::rejected);
  if (end) gone.emplace(event->id, event->type);
  return event;
}

CmEvent InitiatorHost::next_event() {
  for (const auto limit = Clock::now() + kPatience; Clock::now() < limit; progress()) {
    if (auto event = take()) return *event;
  }
  throw std::runtime_error("no event came within " + std::to_string(kPatience.count()) + " s");
}

InitiatorQueue::InitiatorQueue(InitiatorHost& host, const CmAddress& target, uint16_t queue_id, uint32_t entries)
    : InitiatorQueue(host, target, request_of(queue_id, entries), entries) {}

InitiatorQueue::InitiatorQueue(InitiatorHost& host, const CmAddress& target, std::span<const std::byte> private_data,
                               uint32_t entries)
    : host_(host),
      entries_(entries),
      sends_(2 * entries),
      capsules_(sends_ * kCapsuleBytes),
      responses_(entries * sizeof(nvme::Response)),
      data_region_(good(host.pd.register_memory(memory_.data(), memory_.size(),
                                                Access::local_write | Access::remote_write | Access::remote_read))),
      capsule_region_(good(host.pd.register_memory(capsules_.data(), capsules_.size(), {}))),
      response_region_(good(host.pd.register_memory(responses_.data(), responses_.size(), Access::local_write))),
      cq_(good(host.context.create_cq(4 * entries))),
      qp_(good(host.context.create_qp(host.pd, cq_, cq_, {.cap = {.max_send_wr = sends_, .max_recv_wr = entries}}))),
      id_(good(host.connections.create_id(host.channel, PortSpace::tcp, QpType::rc))) {
  establish(target, private_data);
}

void InitiatorQueue::establish(const CmAddress& target, std::span<const std::byte> private_data) {
  const auto expect = [&](CmEventType type) {
    CmEvent event = host_.next_event();
    while (event.id != id_.number()) event = host_.next_event();
    if (event.type == CmEventType::rejected && event.param.private_data.size() >= sizeof(nvme::CmReject)) {
      nvme::CmReject reject;
      std::memcpy(&reject, event.param.private_data.data(), sizeof reject);
      throw Rejected(reject.status);
    }
    if (event.type != type) throw std::runtime_error("event " + std::to_string(static_cast<int>(event.type)));
  };
  const auto move_to = [&](QpState state) {
    const auto [attr, mask] = good(id_.qp_attr(state));
    good(qp_.modify(attr, mask));
  };
  if (host_.ack_timeout) good(id_.set_ack_timeout(*host_.ack_timeout));
  good(id_.resolve_addr(host_.local, target, 5s));
  expect(CmEventType::addr_resolved);
  good(id_.resolve_route(5s));
  expect(CmEventType::route_resolved);
  move_to(QpState::init);
  for (uint32_t slot = 0; slot < entries_; ++slot) post_receive(slot);
  good(id_.connect({.private_data = {private_data.begin(), private_data.end()},
                    .responder_resources = 16,
                    .initiator_depth = 0,
                    .qpn = qp_.qpn()}));
  expect(CmEventType::connect_response);
  move_to(QpState::init);  // again: now it is known that the target may READ
  move_to(QpState::rtr);
  move_to(QpState::rts);
  if (host_.rtu) good(id_.establish());
}

void InitiatorQueue::post_receive(uint32_t slot) {
  const Sge into = response_region_.sge(slot * sizeof(nvme::Response), sizeof(nvme::Response));
  if (qp_.post_recv({.wr_id = kReceive | slot, .sges = {&into, 1}}) != 0) throw std::runtime_error("post_recv");
}

nvme::Response InitiatorQueue::connect(const std::string& subsystem, const std::string& host_nqn, uint16_t queue_id,
                                       uint16_t controller_id, uint32_t keep_alive_ms) {
  nvme::ConnectData connect_data{};
  connect_data.host_id[0] = 1;
  connect_data.controller_id = controller_id;
  subsystem.copy(connect_data.subsystem_nqn.data(), connect_data.subsystem_nqn.size());
  host_nqn.copy(connect_data.host_nqn.data(), connect_data.host_nqn.size());
  std::memcpy(memory_.data(), &connect_data, sizeof connect_data);
  nvme::Command command = fabrics(nvme::kConnect);
  command.cdw10 = uint32_t{queue_id} << 16;
  command.cdw11 = entries_ - 1;
  command.cdw12 = keep_alive_ms;
  return call(keyed(command, 0, sizeof connect_data));
}

nvme::Command InitiatorQueue::described(nvme::Command command, uint64_t address, uint32_t length, uint32_t key,
                                        uint8_t type) {
  std::memcpy(command.sgl.data(), &address, sizeof address);
  std::memcpy(command.sgl.data() + 8, &length, 3);
  std::memcpy(command.sgl.data() + 11, &key, sizeof key);
  command.sgl[15] = type;
  return command;
}

nvme::Command InitiatorQueue::keyed(nvme::Command command, std::size_t offset, uint32_t length) const {
  return described(command, reinterpret_cast<uint64_t>(memory_.data() + offset), length, data_region_.rkey(),
                   nvme::kSglKeyed);
}

nvme::Command InitiatorQueue::in_capsule(nvme::Command command, uint64_t offset, uint32_t length) {
  command = described(command, offset, 0, 0, nvme::kSglOffset);
  std::memcpy(command.sgl.data() + 8, &length, sizeof length);
  return command;
}

uint16_t InitiatorQueue::submit(nvme::Command command, std::span<const std::byte> behind) {
  command.command_id = static_cast<uint16_t>(sent_);
  if ((command.flags & nvme::kPsdtMask) == 0) command.flags |= nvme::kPsdtSgl;
  std::vector<std::byte> capsule(sizeof command + behind.size());
  std::memcpy(capsule.data(), &command, sizeof command);
  std::ranges::copy(behind, capsule.begin() + sizeof command);
  send(capsule);
  return command.command_id;
}

void InitiatorQueue::send(std::span<const std::byte> capsule) {
  const std::size_t at = sent_++ % sends_ * kCapsuleBytes;
  if (capsule.size() > capsules_.size() - at) throw std::runtime_error("a capsule longer than the memory for it");
  std::ranges::copy(capsule, capsules_.begin() + static_cast<std::ptrdiff_t>(at));
  const Sge from = capsule_region_.sge(at, static_cast<uint32_t>(capsule.size()));
  if (qp_.post_send({.flags = SendFlag::signaled, .sges = {&from, 1}}) != 0) throw std::runtime_error("post_send");
}

std::optional<nvme::Response> InitiatorQueue::take(const Completion& completion) {
  if (completion.status != WcStatus::success) {
    ended_ = true;
    return std::nullopt;
  }
  if ((completion.wr_id & kReceive) == 0) {
    ++delivered_;
    return std::nullopt;
  }
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  nvme::Response response;
  std::memcpy(&response, responses_.data() + slot * sizeof response, sizeof response);
  invalidated_ = completion.flags.has(WcFlag::with_invalidate) ? completion.imm_or_key : 0;
  post_receive(slot);
  return response;
}

std::optional<nvme::Response> InitiatorQueue::poll() {
  Completion completion;
  while (!ended_ && cq_.poll({&completion, 1}) == 1) {
    if (auto response = take(completion)) return response;
  }
  return std::nullopt;
}

bool InitiatorQueue::ended() {
  while (host_.take()) continue;
  return ended_ = ended_ || host_.gone.contains(id_.number());
}

std::optional<nvme::Response> InitiatorQueue::next() {
  for (const auto limit = Clock::now() + kPatience; Clock::now() < limit; host_.progress()) {
    if (auto response = poll()) return response;
    if (ended()) return poll();
  }
  throw std::runtime_error("no response came within " + std::to_string(kPatience.count()) + " s");
}

nvme::Response InitiatorQueue::call(const nvme::Command& command, std::span<const std::byte> behind) {
  const uint16_t sent = submit(command, behind);
  const auto response = next();
  if (!response) throw std::runtime_error("the target ended the connection");
  if (response->command_id != sent) throw std::runtime_error("a response to another command");
  return *response;
}

nvme::Command property_get(uint32_t offset, bool wide) {
  nvme::Command command = fabrics(nvme::kPropertyGet);
  command.cdw10 = wide ? 1 : 0;
  command.cdw11 = offset;
  return command;
}

nvme::Command property_set(uint32_t offset, uint64_t value) {
  nvme::Command command = fabrics(nvme::kPropertySet);
  command.cdw11 = offset;
  command.cdw12 = static_cast<uint32_t>(value);
  command.cdw13 = static_cast<uint32_t>(value >> 32);
  return command;
}

nvme::Command admin_command(uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11) {
  nvme::Command command{};
  command.opcode = opcode;
  command.nsid = nsid;
  command.cdw10 = cdw10;
  command.cdw11 = cdw11;
  return command;
}

nvme::Command log_command(uint8_t page, uint32_t bytes, uint64_t offset) {
  const uint32_t count = bytes / 4 - 1;
  nvme::Command command = admin_command(nvme::kGetLogPage, 0, count << 16 | page, count >> 16);
  command.cdw12 = static_cast<uint32_t>(offset);
  command.cdw13 = static_cast<uint32_t>(offset >> 32);
  return command;
}

nvme::Command io_command(uint8_t opcode, uint32_t nsid, uint64_t first, uint32_t blocks) {
  nvme::Command command = admin_command(opcode, nsid, static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32));
  command.cdw12 = blocks - 1;
  return command;
}

uint16_t make_controller(InitiatorQueue& admin, const std::string& subsystem, const std::string& host_nqn,
                         uint32_t keep_alive_ms) {
  const auto connected = admin.connect(subsystem, host_nqn, 0, nvme::kDynamicController, keep_alive_ms);
  if (status_of(connected) != nvme::Status::success) {
    throw std::runtime_error("Connect failed with status " + std::to_string(connected.status >> 1));
  }
  (void)admin.call(property_set(nvme::kCc, 0x460001));
  const auto state = admin.call(property_get(nvme::kCsts, false));
  if ((state.result & nvme::kCstsReady) == 0) throw std::runtime_error("the controller is not ready");
  return static_cast<uint16_t>(connected.result);
}

}  // namespace uroce::test
