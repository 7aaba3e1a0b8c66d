// The queue pairs that wait for an engine, in fair turns: users take turns, within a user its clients, within a client
// its queue pairs. A user with a thousand clients, or a client with a thousand queue pairs, gets no more than one with
// one.
//
// Deficit round robin (Shreedhar and Varghese, 1996), charged after the turn: an element that overdraws begins the next
// round with that debt. Where nobody else waits, nothing is charged.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/core/work.h"
#include "transport/engine/list.h"
#include "transport/engine/owners.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The work that a user or a client may still do in this round, in units of work.h.
class Deficit {
 public:
  /// May the one whose turn it is go on? Where its last turn has used everything up, a new one begins with `units`.
  bool may_go(uint64_t units) {
    if (credit_ > 0) return true;
    const auto quantum = static_cast<int64_t>(units);
    // Frames arrive whether or not their owner has credit. They take at most half of its share from what it sends.
    credit_ += quantum - std::min(owed_, quantum / 2);
    owed_ = 0;
    return credit_ > 0;
  }
  /// False: the turn is over.
  bool charge(uint32_t work) { return (credit_ -= work) > 0; }
  /// Work that took no turn. The next one is shorter for it.
  void owe(uint32_t work) { owed_ += work; }
  /// Nothing waits any more. Credit is not saved up; debts stay.
  void leave() { credit_ = std::min<int64_t>(credit_, 0); }
  bool in_debt() const { return credit_ < 0; }
  uint32_t credit() const { return static_cast<uint32_t>(std::clamp<int64_t>(credit_, 1, work::kUnlimited)); }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [credit, owed] = *this;
    archive("credit", credit, -kMost, kMost);
    archive("owed", owed, 0, kMost);
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 60;

  int64_t credit_ = 0;
  int64_t owed_ = 0;
};

/// `QpLink` says where a queue pair keeps its place in this queue (List).
template <class QpLink>
class FairQueue {
 public:
  FairQueue() : clients_(Owners::kMaxClients), users_(Owners::kMaxClients) { set_user(Owners::kOwnProcess, 0, 1); }

  /// None of the client's queue pairs is in the queue.
  void set_user(uint16_t client, uint16_t user, uint32_t weight) {
    Client& changed = clients_[client];
    if (changed.link.listed) leave(changed);
    changed = Client{};
    changed.user = &users_[user];
    users_[user].weight = weight;
  }

  bool empty() const { return waiting_ == 0; }
  /// How many queue pairs wait.
  std::size_t waiting() const { return waiting_; }
  /// Appends the QP to its client's unless it is in the queue.
  void push(Qp& qp) {
    if (QpLink::listed(qp)) return;
    Client& client = clients_[qp.tx.owner];
    client.qps.push_back(qp);
    ++waiting_;
    if (!client.link.listed) [[unlikely]]
      enter(client);
  }
  /// The QP whose turn it is, which may do allowance(); nullptr when empty.
  Qp* pop() {
    if (waiting_ == 0) return nullptr;
    --waiting_;
    User& user = *turns_.front();
    Client* client = user.clients.front();
    charged_ = nullptr;
    allowance_ = work::kUnlimited;
    if (turns_.several() || user.clients.several() || client->qps.empty()) [[unlikely]]
      client = &choose();
    Qp& qp = client->qps.pop_front();
    if (!client->qps.empty()) {
      allowance_ = std::min(allowance_, charged_ != nullptr ? client->qp_turn_left : work::kQpTurn);
    }
    served_ = &qp;
    return &qp;
  }
  uint32_t allowance() const { return allowance_; }
  /// Does a poll count down, even one that finds nobody?
  bool is_sparse() const { return sparse_polls_ != 0; }
  /// The work of a poll where several clients have queue pairs: less for a while after a client had little to do.
  uint32_t poll_allowance() {
    if (sparse_polls_ == 0) return work::kSharedPoll;
    --sparse_polls_;
    return work::kSparsePoll;
  }
  /// Charges the QP that came last.
  void charge(uint32_t work) {
    if (charged_ != nullptr) [[unlikely]]
      end_turn(*charged_, work);
  }
  /// Work of a client that took no turn.
  void owe(uint16_t client, uint32_t work) {
    clients_[client].deficit.owe(work);
    clients_[client].user->deficit.owe(work);
  }
  void remove(Qp& gone) {
    Client& client = clients_[gone.tx.owner];
    // Another QP may come to be at its address.
    if (client.last == &gone) client.last = nullptr;
    if (!QpLink::listed(gone)) return;
    client.qps.remove(gone);
    --waiting_;
  }

  /// Of the first `clients` and `users`; no other has been used. `find` gives the QP of a number, or nullptr. No
  /// turn has begun.
  template <class Archive, class Find>
  void persist(Archive& archive, std::size_t clients, std::size_t users, Find&& find) {
    for (User& user : std::span(users_).first(users)) {
      auto& [listed, weight, deficit, link] = user;
      archive("weight", weight, 1, Owners::kMaxClients);
      archive("deficit", deficit);
    }
    for (Client& client : std::span(clients_).first(clients)) {
      auto& [qps, qp_turn_left, done, last, user, deficit, link] = client;
      auto number = static_cast<uint32_t>(user != nullptr ? user - users_.data() + 1 : 0);
      uint32_t qpn = last != nullptr ? last->qpn : 0;
      archive("user", number, 1, static_cast<uint32_t>(users));
      archive("qp_turn_left", qp_turn_left);
      archive("done", done);
      archive("last", qpn);
      archive("deficit", deficit);
      if constexpr (Archive::kReads) {
        user = number != 0 ? &users_[number - 1] : nullptr;
        last = qpn != 0 ? find(qpn) : nullptr;
      }
      persist_list(
          archive, "qps", qps, [](const Qp& qp) { return qp.qpn; },
          [&](uint32_t named) -> Qp* {
            Qp* const qp = find(named);
            const bool fits =
                qp != nullptr && !QpLink::listed(*qp) && user != nullptr && &clients_[qp->tx.owner] == &client;
            waiting_ += fits ? 1 : 0;
            return fits ? qp : nullptr;
          },
          [](Qp& qp) { return QpLink::next(qp); });
    }
    const auto next = [](auto& member) { return member.link.next; };
    for (User& user : std::span(users_).first(users)) {
      persist_list(
          archive, "members", user.clients,
          [this](const Client& client) { return static_cast<uint32_t>(&client - clients_.data()); },
          [&](uint32_t named) -> Client* {
            const bool fits = named < clients && !clients_[named].link.listed && clients_[named].user == &user;
            return fits ? &clients_[named] : nullptr;
          },
          next);
    }
    persist_list(
        archive, "turns", turns_, [this](const User& user) { return static_cast<uint32_t>(&user - users_.data()); },
        [&](uint32_t named) -> User* {
          const bool fits = named < users && !users_[named].link.listed && !users_[named].clients.empty();
          return fits ? &users_[named] : nullptr;
        },
        next);
    archive("sparse_polls", sparse_polls_, 0, kSparsePolls);
    if constexpr (Archive::kReads) {
      for (const Client& client : std::span(clients_).first(clients)) {
        const bool waits = client.link.listed && client.user->link.listed;
        if (!client.qps.empty() && !waits) archive.refuse("has a client without a turn");
        if (client.link.listed && !client.user->link.listed) archive.refuse("has a user without a turn");
      }
    }
  }

 private:
  /// The elements by numbers, which `find` turns into elements that are in no list; nullptr: the number is wrong.
  template <class Archive, class Members, class Number, class Find, class Next>
  static void persist_list(Archive& archive, const char* name, Members& list, Number&& number, Find&& find,
                           Next&& next) {
    uint32_t count = 0;
    if constexpr (!Archive::kReads) {
      for (auto* at = list.front(); at != nullptr; at = next(*at)) ++count;
    }
    archive(name, count);
    auto* at = list.front();
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t named = 0;
      if constexpr (!Archive::kReads) named = number(*at);
      archive(name, named);
      if constexpr (Archive::kReads) {
        auto* const found = archive.good() ? find(named) : nullptr;
        if (found == nullptr) return archive.refuse("is " + std::to_string(named) + ", which is none or elsewhere");
        list.push_back(*found);
      } else {
        at = next(*at);
      }
    }
  }

  struct User;
  /// Those without a queue pair that waits stay listed until their turn comes, so that a client that is alone moves
  /// neither in nor out.
  struct Client {
    List<Qp, QpLink> qps;
    uint32_t qp_turn_left = work::kQpTurn;  ///< of the first one's turn
    uint64_t done = 0;                      ///< since it came
    const Qp* last = nullptr;               ///< whose turn it was; only compared, because it may be gone
    User* user = nullptr;
    Deficit deficit;
    ListLink<Client> link;
  };
  struct User {
    List<Client, MemberLink<Client>> clients;  ///< at least one while the user is listed
    uint32_t weight = 1;
    Deficit deficit;
    ListLink<User> link;
  };

  static constexpr uint32_t kSparsePolls = 1024;  // some milliseconds
  static constexpr uint32_t kLittle = 4096;

  /// A newcomer without a debt goes first, so that a message that is alone does not wait for others' turns. The charge
  /// for it makes a debt where it was large (like the new flows of RFC 8290, 4.2).
  template <class Members, class Member>
  static void place(Members& members, Member& member) {
    member.deficit.in_debt() ? members.push_back(member) : members.push_front(member);
  }
  [[gnu::noinline]] void enter(Client& client) {
    client.done = 0;
    place(client.user->clients, client);
    if (!client.user->link.listed) place(turns_, *client.user);
  }
  void leave(Client& client) {
    User& user = *client.user;
    if (charged_ == &client) charged_ = nullptr;
    if (client.done != 0 && client.done < kLittle) sparse_polls_ = kSparsePolls;
    client.deficit.leave();
    user.clients.remove(client);
    if (!user.clients.empty()) return;
    user.deficit.leave();
    turns_.remove(user);
  }
  // Some QP waits, so this ends: with each round everybody's debt shrinks.
  Client& choose() {
    for (;;) {
      User& user = *turns_.front();
      Client& client = *user.clients.front();
      if (client.qps.empty()) {
        leave(client);
      } else if (turns_.several() && !user.deficit.may_go(quantum() * user.weight)) {
        turns_.rotate();
      } else if (user.clients.several() && !client.deficit.may_go(quantum())) {
        user.clients.rotate();
      } else {
        limit_turn(user, client);
        return client;
      }
    }
  }
  uint64_t quantum() const { return sparse_polls_ == 0 ? work::kQuantum : work::kSparseQuantum; }
  void limit_turn(const User& user, Client& client) {
    if (turns_.several()) allowance_ = user.deficit.credit();
    if (user.clients.several()) allowance_ = std::min(allowance_, client.deficit.credit());
    if (allowance_ != work::kUnlimited) charged_ = &client;
  }
  void end_turn(Client& client, uint32_t work) {
    User& user = *client.user;
    client.done += work;
    if (client.last != served_) work += work == 0 ? work::kTouch : work::kChange;
    work += work::kTurn;
    client.last = served_;
    // A queue pair goes on in its client's next turn: changing from one to another costs cache misses.
    if (work < client.qp_turn_left && client.qps.back() == served_) {
      client.qps.rotate_back();
      client.qp_turn_left -= work;
    } else {
      client.qp_turn_left = work::kQpTurn;
    }
    if (user.clients.several() && !client.deficit.charge(work)) user.clients.rotate();
    if (turns_.several() && !user.deficit.charge(work)) turns_.rotate();
  }

  std::vector<Client> clients_;
  std::vector<User> users_;
  List<User, MemberLink<User>> turns_;  // of users that have something waiting
  Client* charged_ = nullptr;           // of the QP that came last, where several clients wait
  Qp* served_ = nullptr;                // that QP
  uint32_t allowance_ = work::kUnlimited;
  uint32_t waiting_ = 0;
  uint32_t sparse_polls_ = 0;
};

/// The queue pairs that may have something to send. They are read at every turn, so they are in the hot part.
struct RunLink {
  static Qp*& next(Qp& qp) { return qp.tx.next_in_run_queue; }
  static Qp*& previous(Qp& qp) { return qp.tx.previous_in_run_queue; }
  static bool& listed(Qp& qp) { return qp.on_run_queue; }
};
using RunQueue = FairQueue<RunLink>;

/// The queue pairs whose work requests are being flushed. Flushing needs no room in the sink, so it does not wait in
/// the run queue.
struct FlushLink {
  static Qp*& next(Qp& qp) { return qp.cold->next_in_flush_queue; }
  static Qp*& previous(Qp& qp) { return qp.cold->previous_in_flush_queue; }
  static bool& listed(Qp& qp) { return qp.cold->on_flush_queue; }
};
using FlushQueue = FairQueue<FlushLink>;

}  // namespace uroce::transport
