#include "nvmf/target.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "nvmf/identify.h"

namespace uroce::nvmf {

using nvme::Status;

namespace {

/// Connect Invalid Parameters, with the offset of the parameter in the submission queue entry, or in the data
/// (NVMe-oF 1.1, 3.3: IPO and IATTR).
std::unexpected<Reply> invalid_in_command(uint16_t offset) {
  return std::unexpected(Reply{.status = Status::connect_invalid_parameters, .result = offset});
}
std::unexpected<Reply> invalid_in_data(uint16_t offset) {
  return std::unexpected(Reply{.status = Status::connect_invalid_parameters, .result = uint64_t{1} << 16 | offset});
}

/// Text up to the terminator; nothing where there is none.
std::string_view text_of(const std::array<char, 256>& field) {
  const auto end = std::ranges::find(field, '\0');
  return end == field.end() ? std::string_view()
                            : std::string_view(field.data(), static_cast<std::size_t>(end - field.begin()));
}

nvme::DiscoveryEntry entry_of(const Subsystem& subsystem, const Portal& portal, uint16_t port_id) {
  nvme::DiscoveryEntry entry{};
  entry.transport = 1;
  entry.address_family = portal.ipv6 ? 2 : 1;
  entry.subsystem_type = 2;
  entry.port_id = port_id;
  entry.controller_id = nvme::kDynamicController;
  entry.admin_queue_size = kAdminEntries;
  put_text(entry.service_id, std::to_string(portal.port), ' ');
  put_text(entry.subsystem_nqn, subsystem.nqn, '\0');
  put_text(entry.address, portal.address, ' ');
  entry.rdma.qp_type = 1;
  entry.rdma.provider = 4;
  entry.rdma.cm = 1;
  return entry;
}

}  // namespace

Target::Target(std::vector<Subsystem> subsystems, uint16_t first_id, const Bounds& bounds, std::vector<Portal> portals)
    : subsystems_(std::move(subsystems)),
      first_id_(first_id),
      portals_(std::move(portals)),
      controllers_(kControllers),
      holdings_(bounds, std::ranges::any_of(subsystems_, [](const auto& one) { return !one.hosts.empty(); })) {
  subsystems_.push_back(discovery_subsystem());
}

std::expected<Joined, Reply> Target::connect(const nvme::Command& command, const nvme::ConnectData& data,
                                             uint16_t queue_id, uint32_t entries, const std::string& address,
                                             Nanos now) {
  const auto format = static_cast<uint16_t>(command.cdw10);
  const auto asked_queue = static_cast<uint16_t>(command.cdw10 >> 16);
  const uint32_t asked_entries = (command.cdw11 & 0xffff) + 1;
  if (format != 0) return std::unexpected(Reply{.status = Status::connect_format});
  if (asked_queue != queue_id) return invalid_in_command(42);
  if (asked_entries < 2 || asked_entries > entries) return invalid_in_command(44);
  const auto subsystem = std::ranges::find(subsystems_, text_of(data.subsystem_nqn), &Subsystem::nqn);
  if (subsystem == subsystems_.end()) return invalid_in_data(offsetof(nvme::ConnectData, subsystem_nqn));
  Host host{.nqn = std::string(text_of(data.host_nqn)), .id = data.host_id};
  // SPDK's tools have no NQN on their defaults. Where all hosts are allowed, Linux's and SPDK's targets take them.
  if (data.host_nqn[0] != 0 && !fault_of_nqn(host.nqn).empty())
    return invalid_in_data(offsetof(nvme::ConnectData, host_nqn));
  if (!subsystem->allows(host.nqn)) return std::unexpected(Reply{.status = Status::connect_invalid_host});
  if (queue_id != 0) return join(data, *subsystem, host, address, queue_id);
  // Only the dynamic controller model: a host takes the controller that it gets.
  if (data.controller_id != nvme::kDynamicController)
    return invalid_in_data(offsetof(nvme::ConnectData, controller_id));
  if (!Controller::can_keep_alive(*subsystem, command.cdw12))
    return std::unexpected(Reply{.status = Status::keep_alive_invalid});
  return create(*subsystem, std::move(host), address, command.cdw12, now);
}

Holder Target::holder(const Host& host, const std::string& address) const {
  const bool listed = std::ranges::any_of(subsystems_, [&](const auto& one) { return one.hosts.contains(host.nqn); });
  return {.address = address, .nqn = host.nqn, .listed = listed};
}

std::expected<Joined, Reply> Target::create(const Subsystem& subsystem, Host host, const std::string& address,
                                            uint32_t keep_alive_ms, Nanos now) {
  const Holder who = holder(host, address);
  const std::scoped_lock lock(mutex_);
  // Busy is an error that another try may not meet: others' controllers end.
  if (!holdings_.take(who, controller_of(subsystem.discovery)))
    return std::unexpected(Reply{.status = Status::connect_controller_busy});
  // Ids go round, so that a host that comes back late does not meet another host's controller.
  for (std::size_t tried = 0; tried < controllers_.size(); ++tried) {
    const auto at = next_id_;
    next_id_ = static_cast<uint16_t>((next_id_ + 1u) % controllers_.size());
    if (controllers_[at] != nullptr) continue;
    const auto id = static_cast<uint16_t>(first_id_ + at);
    controllers_[at] = std::make_shared<Controller>(id, subsystem, std::move(host), keep_alive_ms, now);
    return Joined{.controller = controllers_[at], .listed = who.listed};
  }
  holdings_.give(who, controller_of(subsystem.discovery));
  return std::unexpected(Reply{.status = Status::connect_controller_busy});
}

std::expected<Joined, Reply> Target::join(const nvme::ConnectData& data, const Subsystem& subsystem, const Host& host,
                                          const std::string& address, uint16_t queue_id) {
  const std::size_t at = data.controller_id - std::size_t{first_id_};
  auto controller = [&] {
    const std::scoped_lock lock(mutex_);
    return at < controllers_.size() ? controllers_[at] : nullptr;
  }();
  // A host that does not fit learns no more than one that names no controller.
  if (controller == nullptr || &controller->subsystem() != &subsystem || controller->host() != host) {
    return invalid_in_data(offsetof(nvme::ConnectData, controller_id));
  }
  if (!controller->ready() || subsystem.discovery)
    return std::unexpected(Reply{.status = Status::command_sequence_error});
  const Holder who = holder(host, address);
  {
    const std::scoped_lock lock(mutex_);
    if (!holdings_.take(who, kIoQueue)) return std::unexpected(Reply{.status = Status::connect_controller_busy});
  }
  if (const auto joined_at = controller->join(queue_id)) return Joined{std::move(controller), *joined_at, who.listed};
  const std::scoped_lock lock(mutex_);
  holdings_.give(who, kIoQueue);
  return invalid_in_command(42);
}

void Target::leave(Controller& controller, uint16_t queue_id, uint32_t joined_at, const std::string& address) {
  controller.leave(queue_id, joined_at);
  const std::scoped_lock lock(mutex_);
  holdings_.give(holder(controller.host(), address), kIoQueue);
}

void Target::remove(Controller& controller, const std::string& address) {
  controller.end();
  const std::scoped_lock lock(mutex_);
  holdings_.give(holder(controller.host(), address), controller_of(controller.subsystem().discovery));
  controllers_[static_cast<std::size_t>(controller.id() - first_id_)].reset();
}

void Target::look_at_disks() {
  const std::scoped_lock lock(mutex_);
  for (const Subsystem& subsystem : subsystems_) {
    for (const Namespace& one : subsystem.namespaces) {
      if (!one.backend->look_at_size()) continue;
      for (const auto& controller : controllers_) {
        if (controller != nullptr && &controller->subsystem() == &subsystem) controller->namespace_changed(one.nsid);
      }
    }
  }
}

std::size_t Target::controllers() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(controllers_, [](const auto& one) { return one != nullptr; }));
}

void Target::discovery_log(std::string_view host_nqn, const Portal& portal, uint64_t offset,
                           std::span<std::byte> out) const {
  std::ranges::fill(out, std::byte{0});
  // Copies what of a record lies in [offset, offset + out.size()).
  uint64_t at = 0;
  const auto put = [&](const auto& record) {
    const uint64_t from = std::max(at, offset), to = std::min(at + sizeof record, offset + out.size());
    if (from < to)
      std::memcpy(out.data() + (from - offset), reinterpret_cast<const std::byte*>(&record) + (from - at), to - from);
    at += sizeof record;
  };
  const auto shown = [&](const Subsystem& one) { return !one.discovery && one.allows(host_nqn); };
  nvme::DiscoveryHeader header{};
  header.generation = 1;
  std::vector<Portal> portals = portals_;
  if (std::ranges::find(portals, portal) == portals.end()) portals.insert(portals.begin(), portal);
  header.records = portals.size() * static_cast<uint64_t>(std::ranges::count_if(subsystems_, shown));
  put(header);
  for (const Subsystem& one : subsystems_) {
    if (!shown(one)) continue;
    uint16_t port_id = 0;
    for (const Portal& each : portals) put(entry_of(one, each, ++port_id));
  }
}

}  // namespace uroce::nvmf
