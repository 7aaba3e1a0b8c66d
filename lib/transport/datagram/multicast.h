// The QPs that have joined multicast groups (IBTA vol. 1, 10.5). Every engine of a device has the whole list. It
// delivers to its own members. A datagram that it sends to a group with members on the device is looped back too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/types.h>

namespace uroce::transport {

class MulticastGroups {
 public:
  static constexpr std::size_t kMaxMembers = 4096;

  struct Member {
    Gid group{};
    uint32_t qpn = 0;
    friend auto operator<=>(const Member&, const Member&) = default;
  };

  /// Joining twice has no further effect. False: kMaxMembers are in the list.
  bool join(const Gid& group, uint32_t qpn) {
    const Member member{group, qpn};
    const auto at = std::ranges::lower_bound(members_, member);
    if (at != members_.end() && *at == member) return true;
    if (members_.size() == kMaxMembers) return false;
    members_.insert(at, member);
    ++revision_;
    return true;
  }
  void leave(const Gid& group, uint32_t qpn) {
    std::erase(members_, Member{group, qpn});
    ++revision_;
  }
  void leave_all(uint32_t qpn) {
    std::erase_if(members_, [qpn](const Member& member) { return member.qpn == qpn; });
    ++revision_;
  }
  /// Valid until the next change.
  std::span<const Member> members(const Gid& group) const {
    const auto found = std::ranges::equal_range(members_, group, {}, &Member::group);
    return {found.begin(), found.end()};
  }

  std::span<const Member> all() const { return members_; }
  /// Another number after each change.
  uint32_t revision() const { return revision_; }

 private:
  std::vector<Member> members_;  // sorted
  uint32_t revision_ = 0;
};

}  // namespace uroce::transport
