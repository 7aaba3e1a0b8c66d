// Queue pairs and multicast groups: every engine of the device has the members of each group
// (transport/datagram/multicast.h).
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"
#include "control/qp.h"
#include "transport/datagram/multicast.h"

namespace uroce::control {

Result<void> ControlQp::attach_multicast(const Gid& group) {
  if (type() != QpType::ud) return named({EINVAL, "only a UD queue pair can be attached to a multicast group"});
  if (!group.is_multicast()) {
    return named(
        {EINVAL,
         "the GID is not a multicast group; groups are ff00::/8 and ::ffff:224.0.0.0 to ::ffff:239.255.255.255"});
  }
  const auto lock = device().runner().lock();
  if (auto alive = device().check_alive(); !alive) return alive;
  if (std::ranges::find(groups_, group) != groups_.end()) return {};
  bool room = true;
  const auto joined =
      on_every_engine([&](transport::Engine& engine) { room = engine.groups().join(group, qpn()) && room; });
  if (joined && room) {
    groups_.push_back(group);
    use_group(group);
    return {};
  }
  const auto left = on_every_engine([&](transport::Engine& engine) { engine.groups().leave(group, qpn()); });
  if (!joined) return named(joined.error());
  if (!left) return named(left.error());
  return named(
      {ENOMEM,
       fmt::format("{} has {} attachments to multicast groups, which is the limit (max_multicast_attach); detach some",
                   device().config().name, transport::MulticastGroups::kMaxMembers)});
}

Result<void> ControlQp::detach_multicast(const Gid& group) {
  const auto lock = device().runner().lock();
  if (auto alive = device().check_alive(); !alive) return alive;
  const auto at = std::ranges::find(groups_, group);
  if (at == groups_.end()) return named({EINVAL, "the queue pair is not attached to that multicast group"});
  groups_.erase(at);
  unuse_group(group);
  const auto left = on_every_engine([&](transport::Engine& engine) { engine.groups().leave(group, qpn()); });
  if (!left) return named(left.error());
  return {};
}

void ControlQp::leave_groups() {
  if (groups_.empty()) return;
  for (const Gid& group : groups_) unuse_group(group);
  groups_.clear();
  // An engine that does not reply keeps the QPN in its groups, but finds no queue pair with that number.
  (void)on_every_engine([&](transport::Engine& engine) { engine.groups().leave_all(qpn()); });
}

void ControlQp::use_group(const Gid& group) {
  if (device().objects().multicast_users().add(group)) device().runner().host().join_group(group);
}

void ControlQp::unuse_group(const Gid& group) {
  if (!device().objects().multicast_users().remove(group)) return;
  if (!device().runner().stopped()) device().runner().host().leave_group(group);  // else the host is gone
}

Result<void> ControlQp::on_every_engine(const EngineRunner::Work& work) {
  Result<void> all;
  for (uint32_t index = 0; index < device().engines(); ++index) {
    if (auto ran = device().runner().run(index, work); !ran) all = ran;
  }
  return all;
}

}  // namespace uroce::control
