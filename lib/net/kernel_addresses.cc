#include "net/kernel_addresses.h"

#include <linux/if_addr.h>

#include <algorithm>
#include <array>
#include <utility>

#include "net/address.h"

namespace uroce::net {

bool KernelAddresses::usable(const Address& address) {
  if ((address.flags & IFA_F_DADFAILED) != 0) return false;
  return (address.flags & IFA_F_TENTATIVE) == 0 || (address.flags & IFA_F_OPTIMISTIC) != 0;
}

void KernelAddresses::take(const AddressNews& news, uint64_t reading) {
  const Gid& gid = news.address.gid;
  if (is_unspecified(gid) || is_multicast(gid) || is_loopback(gid)) return;
  if (news.removed) {
    if (addresses_.erase(gid) != 0) ++generation_;
    return;
  }
  if (!addresses_.contains(gid) && addresses_.size() == kMaxKernelAddresses) return counters_.table_full.add();
  const auto [at, added] = addresses_.try_emplace(gid);
  Address& address = at->second;
  const bool was_usable = !added && usable(address);
  if (added) address.order = ++order_;
  address.prefix = news.address.prefix;
  address.flags = news.flags;
  address.read = reading;
  if (usable(address) != was_usable) ++generation_;
}

void KernelAddresses::forget_unread(uint64_t reading) {
  if (std::erase_if(addresses_, [&](const auto& a) { return a.second.read != reading; }) != 0) ++generation_;
}

std::vector<Gid> KernelAddresses::list() const {
  std::vector<std::pair<uint64_t, Gid>> ordered;
  for (const auto& [gid, address] : addresses_) {
    if (!usable(address)) continue;
    const uint64_t kind = gid.is_ipv4() ? 0 : is_link_local(gid) ? 2 : 1;
    ordered.emplace_back(kind << 62 | address.order, gid);
  }
  std::ranges::sort(ordered);
  std::vector<Gid> out;
  for (const auto& [order, gid] : ordered) out.push_back(gid);
  return out;
}

bool KernelAddresses::has(const Gid& gid) const {
  const auto found = addresses_.find(gid);
  return found != addresses_.end() && usable(found->second);
}

bool KernelAddresses::on_subnet(const Gid& gid) const {
  return std::ranges::any_of(addresses_, [&](const auto& a) { return same_subnet(a.first, gid, a.second.prefix); });
}

// A deprecated address comes last.
std::optional<Gid> KernelAddresses::source_for(const Gid& dgid) const {
  const auto fitness = [&](const Gid& gid) {
    const Address& address = addresses_.at(gid);
    const bool preferred = (address.flags & IFA_F_DEPRECATED) == 0;
    const bool reaches = is_link_local(gid) == is_link_local(dgid);
    return std::array{reaches, preferred, same_subnet(gid, dgid, address.prefix)};
  };
  std::optional<Gid> best;
  for (const Gid& gid : list()) {
    if (gid.is_ipv4() != dgid.is_ipv4()) continue;
    if (!best || fitness(gid) > fitness(*best)) best = gid;
  }
  return best;
}

}  // namespace uroce::net
