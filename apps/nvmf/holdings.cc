#include "nvmf/holdings.h"

namespace uroce::nvmf {

namespace {

bool fits(const Held& held, const Held& wanted, const Held& most) {
  return held.controllers + wanted.controllers <= most.controllers &&
         held.discovery + wanted.discovery <= most.discovery && held.queues + wanted.queues <= most.queues;
}

void add(Held& held, const Held& wanted) {
  held.controllers += wanted.controllers;
  held.discovery += wanted.discovery;
  held.queues += wanted.queues;
}

void subtract(Held& held, const Held& given) {
  held.controllers -= given.controllers;
  held.discovery -= given.discovery;
  held.queues -= given.queues;
}

template <class Hosts>
Held held_by(const Hosts& hosts, const std::string& name) {
  const auto found = hosts.find(name);
  return found == hosts.end() ? Held{} : found->second;
}

template <class Hosts>
void give_to(Hosts& hosts, const std::string& name, const Held& given) {
  const auto found = hosts.find(name);
  if (found == hosts.end()) return;
  subtract(found->second, given);
  if (found->second.queues == 0) hosts.erase(found);
}

}  // namespace

bool Holdings::take(const Holder& host, const Held& wanted) {
  if (!fits(all_, wanted, bounds_.all())) return false;
  if (!fits(held_by(addresses_, host.address), wanted, bounds_.of_host())) return false;
  if (!fits(held_by(names_, host.nqn), wanted, bounds_.of_host())) return false;
  if (reserve_ && !host.listed && !fits(unlisted_, wanted, bounds_.of_unlisted())) return false;
  add(all_, wanted);
  if (!host.listed) add(unlisted_, wanted);
  add(addresses_[host.address], wanted);
  add(names_[host.nqn], wanted);
  return true;
}

void Holdings::give(const Holder& host, const Held& held) {
  subtract(all_, held);
  if (!host.listed) subtract(unlisted_, held);
  give_to(addresses_, host.address, held);
  give_to(names_, host.nqn, held);
}

}  // namespace uroce::nvmf
