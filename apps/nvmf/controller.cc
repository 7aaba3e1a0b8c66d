#include "nvmf/controller.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nvmf/identify.h"

namespace uroce::nvmf {

using nvme::Status;

namespace {

/// MQES; CQR; TO of 7.5 s; CSS: the NVM command set.
constexpr uint64_t kCapabilities = (kQueueEntries - 1) | uint64_t{1} << 16 | uint64_t{15} << 24 | uint64_t{1} << 37;
constexpr uint32_t kIoEntrySizes = 4u << 20 | 6u << 16;
/// Beyond its keep alive timeout: the host's clock starts later, and the network takes its time.
constexpr Nanos kGrace = std::chrono::seconds(1);
/// Of a host that asks a discovery controller for no keep alive (NVMe-oF 1.1, 5: fixed, and not of the host).
constexpr Nanos kDiscoveryActivity = std::chrono::minutes(2);
/// Hosts that stay connected to a discovery controller ask for half a minute to two.
constexpr std::chrono::milliseconds kMostDiscoveryKeepAlive = std::chrono::minutes(10);

Reply refuse(Status status) { return {.status = status}; }

template <class Page>
void copy_page(const Page& page, uint64_t offset, std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{0});
  if (offset >= sizeof page) return;
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&page) + offset,
              std::min(out.size(), sizeof page - offset));
}

}  // namespace

Controller::Controller(uint16_t id, const Subsystem& subsystem, Host host, uint32_t keep_alive_ms, Nanos now)
    : id_(id), subsystem_(subsystem), host_(std::move(host)), keep_alive_ms_(keep_alive_ms), heard_(now) {}

bool Controller::can_keep_alive(const Subsystem& subsystem, uint32_t keep_alive_ms) {
  return !subsystem.discovery || std::chrono::milliseconds(keep_alive_ms) <= kMostDiscoveryKeepAlive;
}

Reply Controller::property_get(uint8_t attributes, uint32_t offset) const {
  const bool wide = (attributes & 7) == 1;
  if ((attributes & 7) > 1 || wide != (offset == nvme::kCap)) return refuse(Status::invalid_field);
  switch (offset) {
    case nvme::kCap: return {.result = kCapabilities};
    case nvme::kVs: return {.result = nvme::kVersion};
    case nvme::kCc: return {.result = cc_};
    case nvme::kCsts: return {.result = csts_.load()};
    // CAP says that these parts are not there. SPDK's `identify` asks for some of them all the same.
    case nvme::kNssr:
    case nvme::kCmbloc:
    case nvme::kCmbsz:
    case nvme::kBpinfo:
    case nvme::kPmrcap: return {};
    default: return refuse(Status::invalid_field);
  }
}

Reply Controller::property_set(uint8_t attributes, uint32_t offset, uint64_t value) {
  if ((attributes & 7) != 0 || offset != nvme::kCc || value > UINT32_MAX) return refuse(Status::invalid_field);
  configure(static_cast<uint32_t>(value));
  return {};
}

void Controller::configure(uint32_t cc) {
  const uint32_t before = std::exchange(cc_, cc);
  const bool enable = (cc & nvme::kCcEnable) != 0;
  if (!enable && (before & nvme::kCcEnable) != 0) reset();
  if (enable && (before & nvme::kCcEnable) == 0) {
    // Memory pages of 4 KiB, the NVM command set, round robin; entry sizes only where there are I/O queues.
    const bool usable = (cc & 0x3ff0) == 0 && (subsystem_.discovery || (cc & 0xff0000) == kIoEntrySizes);
    csts_ = usable ? nvme::kCstsReady : nvme::kCstsFatal;
  }
  if (!enable) csts_ &= ~(nvme::kCstsReady | nvme::kCstsShutdownComplete);
  // Every write that was answered is as durable as it was promised to be, so a shutdown is complete at once.
  if ((cc >> 14 & 3) != 0) csts_ |= nvme::kCstsShutdownComplete;
}

/// NVMe 1.4, 7.3.2: I/O queues are deleted, and features have their defaults again. In Fabrics the admin queue stays,
/// with the keep alive timer of its Connect.
void Controller::reset() {
  csts_ &= ~nvme::kCstsReady;
  const std::scoped_lock lock(joining_);
  resets_.fetch_add(1, std::memory_order_relaxed);
  joined_.reset();
  queues_granted_ = kIoQueues;
  events_held_ = 0;
  async_event_config_ = 0;
  changed_.clear();
  told_ = false;
  features_ = {};
}

std::optional<uint32_t> Controller::take_event() {
  const bool wanted = (async_event_config_ & nvme::kNamespaceNotices) != 0;
  if (changed_.empty() || told_ || !wanted || events_held_ == 0) return std::nullopt;
  told_ = true;
  return nvme::kNamespaceNotice;
}

uint64_t Controller::admin_data_bytes(const nvme::Command& command) {
  if (command.opcode == nvme::kIdentify) return nvme::kPageBytes;
  if (command.opcode != nvme::kGetLogPage) return 0;
  return ((uint64_t{command.cdw11 & 0xffff} << 16 | command.cdw10 >> 16) + 1) * 4;
}

Reply Controller::admin(const nvme::Command& command, std::span<std::byte> data, const DiscoveryLog* log) {
  switch (command.opcode) {
    case nvme::kIdentify: return identify(command, data);
    case nvme::kGetLogPage: return log_page(command, data, log);
    case nvme::kKeepAlive: return {};
    case nvme::kSetFeatures: return set_feature(command);
    case nvme::kGetFeatures: return get_feature(command);
    case nvme::kAsyncEventRequest:
      if (events_held_ == kAsyncEvents) return refuse(Status::async_event_limit);
      ++events_held_;
      return {.held = true};
    default: return refuse(Status::invalid_opcode);
  }
}

Reply Controller::identify(const nvme::Command& command, std::span<std::byte> data) const {
  const auto page = data.first<nvme::kPageBytes>();
  const auto cns = static_cast<uint8_t>(command.cdw10);
  if (cns == nvme::kCnsController) return copy_page(identify_controller(subsystem_, id_), 0, page), Reply{};
  if (subsystem_.discovery) return refuse(Status::invalid_field);
  const Namespace* const one = subsystem_.find(command.nsid);
  switch (cns) {
    case nvme::kCnsNamespace:
      if (command.nsid == nvme::kAllNamespaces || command.nsid == 0) return refuse(Status::invalid_namespace);
      // An inactive namespace is all zero (NVMe 1.4, 5.15.2.1).
      copy_page(one != nullptr ? identify_namespace(*one) : nvme::IdentifyNamespace{}, 0, page);
      return {};
    case nvme::kCnsActiveList:
      if (command.nsid >= nvme::kAllNamespaces - 1) return refuse(Status::invalid_namespace);
      identify_active_list(subsystem_, command.nsid, page);
      return {};
    case nvme::kCnsDescriptors:
      if (one == nullptr) return refuse(Status::invalid_namespace);
      identify_descriptors(*one, page);
      return {};
    default: return refuse(Status::invalid_field);
  }
}

Reply Controller::log_page(const nvme::Command& command, std::span<std::byte> data, const DiscoveryLog* log) {
  const uint64_t offset = uint64_t{command.cdw13} << 32 | command.cdw12;
  if (offset % 4 != 0) return refuse(Status::invalid_field);
  const auto page = static_cast<uint8_t>(command.cdw10);
  if (subsystem_.discovery) {
    if (page != nvme::kDiscoveryLog || log == nullptr) return refuse(Status::invalid_log_page);
    log->read(host_.nqn, offset, data);
    return {};
  }
  switch (page) {
    case nvme::kHealthLog: copy_page(health_log(), offset, data); return {};
    case nvme::kFirmwareLog: copy_page(firmware_log(), offset, data); return {};
    case nvme::kChangedNamespaces: return changed_namespaces(command, offset, data), Reply{};
    // No entries: errors are in the responses.
    case nvme::kErrorLog: std::ranges::fill(data, std::byte{0}); return {};
    default: return refuse(Status::invalid_log_page);
  }
}

/// NVMe 1.4, 5.14.1.4: reading it ends the event, unless the host retains that.
void Controller::changed_namespaces(const nvme::Command& command, uint64_t offset, std::span<std::byte> data) {
  std::array<uint32_t, nvme::kMostChanged> list{};
  if (changed_.size() > list.size()) {
    list[0] = nvme::kAllNamespaces;
  } else {
    std::ranges::copy(changed_, list.begin());
  }
  copy_page(list, offset, data);
  if ((command.cdw10 & nvme::kRetainEvent) != 0) return;
  changed_.clear();
  told_ = false;
}

Reply Controller::set_feature(const nvme::Command& command) {
  if ((command.cdw10 >> 31) != 0) return refuse(Status::feature_not_saveable);
  switch (static_cast<uint8_t>(command.cdw10)) {
    case nvme::kNumberOfQueues: {
      const uint32_t send = command.cdw11 & 0xffff, complete = command.cdw11 >> 16;
      if (send == 0xffff || complete == 0xffff) return refuse(Status::invalid_field);
      // Changing the number once queues exist is a sequence error (NVMe 1.4, 5.21.1.7).
      {
        const std::scoped_lock lock(joining_);
        if (joined_.any()) return refuse(Status::command_sequence_error);
        queues_granted_ = std::min(std::min(send, complete) + 1, kIoQueues);
      }
      return get_feature(command);
    }
    case nvme::kAsyncEventConfig: async_event_config_ = command.cdw11; return {};
    case nvme::kKeepAliveTimer:
      if (!can_keep_alive(subsystem_, command.cdw11)) return refuse(Status::keep_alive_invalid);
      keep_alive_ms_ = command.cdw11;
      return {};
    case nvme::kVolatileWriteCache: return refuse(Status::feature_not_changeable);
    default: {
      if (subsystem_.discovery) return refuse(Status::invalid_field);
      const auto done = features_.set(command);
      return done ? Reply{} : refuse(done.error());
    }
  }
}

Reply Controller::get_feature(const nvme::Command& command) const {
  switch (static_cast<uint8_t>(command.cdw10)) {
    case nvme::kNumberOfQueues: return {.result = (queues_granted() - 1) << 16 | (queues_granted() - 1)};
    case nvme::kAsyncEventConfig: return {.result = async_event_config_};
    case nvme::kKeepAliveTimer: return {.result = keep_alive_ms_};
    case nvme::kVolatileWriteCache: return {.result = 1};
    default: {
      if (subsystem_.discovery) return refuse(Status::invalid_field);
      const auto kept = features_.get(command);
      return kept ? Reply{.result = *kept} : refuse(kept.error());
    }
  }
}

uint32_t Controller::queues_granted() const {
  const std::scoped_lock lock(joining_);
  return queues_granted_;
}

std::optional<uint32_t> Controller::join(uint16_t queue_id) {
  const std::scoped_lock lock(joining_);
  if (queue_id == 0 || queue_id > queues_granted_ || joined_.test(queue_id)) return std::nullopt;
  joined_.set(queue_id);
  return resets();
}

void Controller::leave(uint16_t queue_id, uint32_t joined_at) {
  const std::scoped_lock lock(joining_);
  if (resets() == joined_at) joined_.reset(queue_id);
}

bool Controller::expired(Nanos now) {
  if (silence(now) <= patience()) return false;
  csts_ |= nvme::kCstsFatal;
  return true;
}

Nanos Controller::patience() const {
  if (keep_alive_ms_ != 0) return std::chrono::milliseconds(keep_alive_ms_) + kGrace;
  return subsystem_.discovery ? kDiscoveryActivity : Nanos::max();
}

}  // namespace uroce::nvmf
