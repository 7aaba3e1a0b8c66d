// One program's use of the connection manager. Its connection to the manager owns it, and lends it to the connections
// of the same program's devices, so that one request can change an id and its queue pair.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "cm/manager.h"
#include "control/qp.h"
#include "message/cm_messages.h"

namespace uroce::service {

/// Any thread.
class CmProgram {
 public:
  CmProgram(std::unique_ptr<cm::ManagerUser> made, uint32_t uid) : user_(std::move(made)), uid_(uid) {}

  cm::ManagerUser& user() { return *user_; }
  /// Of the program.
  uint32_t uid() const { return uid_; }

  /// A queue pair that is to be connected once the peer answers. The device's connection owns it.
  struct Waiting {
    std::weak_ptr<control::ControlQp> qp;
    std::vector<message::ModifyStep> before;
  };
  void wait(uint32_t id, Waiting waiting) {
    const std::scoped_lock lock(mutex_);
    waiting_.insert_or_assign(id, std::move(waiting));
  }
  std::optional<Waiting> stop_waiting(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    auto found = waiting_.extract(id);
    return found ? std::optional(std::move(found.mapped())) : std::nullopt;
  }

  /// Held while a queue pair that waited is connected. Its destruction waits for the end of that.
  std::unique_lock<std::mutex> connecting() { return std::unique_lock(connecting_); }

 private:
  const std::unique_ptr<cm::ManagerUser> user_;
  const uint32_t uid_;
  std::mutex connecting_;
  std::mutex mutex_;                               // guards waiting_
  std::unordered_map<uint32_t, Waiting> waiting_;  // by id; only ids that exist
};

/// The programs that lend their use of the connection manager, by pass. Any thread.
class CmPrograms {
 public:
  /// The pass of `program`, always the same.
  message::CmPass lend(const std::shared_ptr<CmProgram>& program);
  /// nullptr where no program of user `uid` has this pass.
  std::shared_ptr<CmProgram> find(const message::CmPass& pass, uint32_t uid) const;
  void remove(const CmProgram& program);

 private:
  using Words = decltype(message::CmPass::words);

  mutable std::mutex mutex_;  // guards what follows
  SecretStream numbers_{Secret::fresh()};
  std::map<Words, std::weak_ptr<CmProgram>> programs_;
  std::map<const CmProgram*, Words> passes_;
};

}  // namespace uroce::service
