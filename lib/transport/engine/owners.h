// The users of an engine and their clients, by small numbers. A client is who rings one doorbell ring.
#pragma once

#include <cstdint>
#include <vector>

namespace uroce::transport {

/// The user for whom a doorbell ring's queue pairs work.
struct Owner {
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr uint32_t kMaxWeight = 64;
  uint32_t user = kNobody;  ///< a uid; kNobody: the engine's own process, which is one client
  uint32_t weight = 1;      ///< the user's share relative to others', 1..kMaxWeight; of a user's rings the last counts
  uint32_t client = 0;      ///< of the program, for the caller's own use; 0: none
};

/// Changes between bursts only.
class Owners {
 public:
  static constexpr std::size_t kMaxClients = 1025;
  /// The client, and the user, that is the engine's own process.
  static constexpr uint16_t kOwnProcess = 0;

  struct Entry {
    uint32_t ring = 0;
    uint16_t user = 0;  ///< 0..kMaxClients - 1
    uint32_t qps = 0;
    bool attached = false;  ///< the ring; without it and without QPs the entry is free
  };

  Owners() : clients_(1), users_(1) {}

  /// The client of a new ring. There are at most kMaxClients - 1 with a user at once.
  uint16_t add(uint32_t ring, const Owner& owner);
  /// The ring is gone. Its client stays as long as it has QPs.
  void remove(uint32_t ring);
  /// The ring's client gets a QP. kOwnProcess where the ring is unknown.
  uint16_t add_qp(uint32_t ring);
  void remove_qp(uint16_t client);

  /// The client of an attached ring; kOwnProcess where it is unknown.
  uint16_t client_of(uint32_t ring) const;
  const Entry& client(uint16_t client) const { return clients_[client]; }
  uint32_t weight_of(uint16_t user) const { return users_[user].weight; }
  /// Do several clients have queue pairs here? The engine's own process does not count.
  bool shared() const { return sharing_ > 1; }
  /// Numbers below these have been used.
  std::size_t clients() const { return clients_.size(); }
  std::size_t users() const { return users_.size(); }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [entries, everybody, sharing] = *this;
    auto clients = static_cast<uint32_t>(entries.size());
    auto users = static_cast<uint32_t>(everybody.size());
    archive("clients", clients, 1, kMaxClients);
    archive("users", users, 1, kMaxClients);
    entries.resize(clients);
    everybody.resize(users);
    for (Entry& entry : entries) {
      auto& [ring, user, qps, attached] = entry;
      archive("ring", ring);
      archive("user", user, 0, static_cast<uint16_t>(users - 1));
      archive("qps", qps);
      archive("attached", attached);
    }
    for (User& user : everybody) {
      auto& [id, weight, served] = user;
      archive("id", id);
      archive("weight", weight, 1, Owner::kMaxWeight);
      archive("clients", served);
    }
    archive("sharing", sharing, 0, clients);
  }

 private:
  struct User {
    uint32_t id = Owner::kNobody;
    uint32_t weight = 1;
    uint32_t clients = 0;  ///< 0: free
  };
  uint16_t take_user(const Owner& owner);
  void give_back(uint16_t client);

  std::vector<Entry> clients_;
  std::vector<User> users_;
  uint32_t sharing_ = 0;  // clients with queue pairs
};

}  // namespace uroce::transport
