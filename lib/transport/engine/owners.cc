#include "transport/engine/owners.h"

#include <algorithm>

namespace uroce::transport {

uint16_t Owners::add(uint32_t ring, const Owner& owner) {
  if (owner.user == Owner::kNobody) return kOwnProcess;
  const auto is_free = [](const Entry& entry) { return !entry.attached && entry.qps == 0; };
  auto entry = std::find_if(clients_.begin() + 1, clients_.end(), is_free);
  if (entry == clients_.end()) entry = clients_.emplace(entry);
  *entry = {.ring = ring, .user = take_user(owner), .qps = 0, .attached = true};
  return static_cast<uint16_t>(entry - clients_.begin());
}

void Owners::remove(uint32_t ring) {
  const uint16_t client = client_of(ring);
  if (client == kOwnProcess) return;
  clients_[client].attached = false;
  give_back(client);
}

uint16_t Owners::add_qp(uint32_t ring) {
  const uint16_t client = client_of(ring);
  if (clients_[client].qps++ == 0 && client != kOwnProcess) ++sharing_;
  return client;
}

void Owners::remove_qp(uint16_t client) {
  if (--clients_[client].qps != 0 || client == kOwnProcess) return;
  --sharing_;
  give_back(client);
}

uint16_t Owners::client_of(uint32_t ring) const {
  for (std::size_t i = 1; i < clients_.size(); ++i) {
    if (clients_[i].attached && clients_[i].ring == ring) return static_cast<uint16_t>(i);
  }
  return kOwnProcess;
}

uint16_t Owners::take_user(const Owner& owner) {
  const auto has = [&](const User& user) { return user.clients != 0 && user.id == owner.user; };
  const auto is_free = [](const User& user) { return user.clients == 0; };
  auto user = std::find_if(users_.begin() + 1, users_.end(), has);
  if (user == users_.end()) user = std::find_if(users_.begin() + 1, users_.end(), is_free);
  if (user == users_.end()) user = users_.emplace(user);
  user->id = owner.user;
  user->weight = std::clamp(owner.weight, 1u, Owner::kMaxWeight);
  ++user->clients;
  return static_cast<uint16_t>(user - users_.begin());
}

void Owners::give_back(uint16_t client) {
  const Entry& entry = clients_[client];
  if (entry.attached || entry.qps != 0) return;
  --users_[entry.user].clients;
}

}  // namespace uroce::transport
