// The objects of one device by number, within the device's limits. Sessions, queue pairs, regions and the rest take
// their numbers here when they are created and give them back when they are destroyed; each kind's file says how.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "base/secret.h"
#include "control/address_handle_registry.h"
#include "control/device_limits.h"
#include "control/id_table.h"
#include "control/key_registry.h"
#include "control/multicast_users.h"
#include "control/number_pool.h"
#include "control/object_state.h"
#include "control/qp_numbers.h"
#include "control/queue_memory.h"
#include "control/xrc_files.h"
#include "control/xrc_sessions.h"

namespace uroce::control {

class CompletionListener;
class ControlSrq;

/// With the control lock held (EngineRunner::lock()), except where a member says otherwise.
class ObjectRegistry {
 public:
  struct Limits {
    uint32_t max_qp;
    uint32_t max_mr;
  };
  /// `device`: its name, for messages. `seed`: for keys.
  ObjectRegistry(const std::string& device, const Limits& limits, const Secret& seed);

  KeyRegistry& keys() { return keys_; }
  const KeyRegistry& keys() const { return keys_; }
  AddressHandleRegistry& address_handles() { return address_handles_; }
  QpNumbers& qp_numbers() { return qp_numbers_; }
  MulticastUsers& multicast_users() { return multicast_users_; }
  /// Engines look completion queues up here without the lock.
  IdTable<CompletionListener>& cqs() { return cqs_; }

  /// A new session's number. Errors: ENOMEM (kMaxSessions).
  Result<uint32_t> take_session();
  void give_back_session() { --sessions_; }
  /// The numbers of sessions: to be given back when no engine polls the rings of the session any more. Any thread.
  NumberPool& session_numbers() { return session_numbers_; }
  /// The numbers of protection domains; Pd gives its own back. Any thread.
  NumberPool& pds() { return pds_; }
  /// The numbers of XRC domains. Any thread.
  NumberPool& xrc_domains() { return xrc_domains_; }
  XrcFiles& xrc_files() { return xrc_files_; }
  /// Any thread, without the lock.
  XrcSessions& xrc_sessions() { return xrc_sessions_; }
  /// Errors: ENOMEM (max_cq).
  Result<uint32_t> take_cq();
  /// These take a number that another daemon gave. Errors: EINVAL (it is in use, or out of range).
  Result<uint32_t> take_cq(uint32_t id);
  Result<uint32_t> take_srq(uint32_t id);
  void give_back_cq(uint32_t id) { cqs_.give_back(id); }
  /// Errors: ENOMEM (max_srq).
  Result<uint32_t> take_srq();
  void give_back_srq(uint32_t id) { srqs_.give_back(id); }
  /// The engine of a new object: round robin over `engines` engines.
  uint32_t choose_engine(uint32_t engines) { return next_engine_++ % engines; }
  /// A new receive rule's number; never given twice.
  uint64_t next_flow() { return ++last_flow_; }
  bool has_given_flow(uint64_t number) const { return number != 0 && number <= last_flow_; }

  DeviceNumbers numbers() const;
  /// The registry has no object of a client yet. False: they are another's of other limits; it can then only go.
  bool go_on_with(const DeviceNumbers& numbers);

  /// An engine that did not reply may still use an object's memory, which stays until the engines answer again or have
  /// stopped. `destroy` destroys the object; it is called without the lock.
  void defer(std::function<void()> destroy) {
    deferred_.push_back(std::move(destroy));
    late_.store(deferred_.size(), std::memory_order_relaxed);
  }
  /// The caller calls each of these, without the lock.
  std::vector<std::function<void()>> take_deferred() {
    late_.store(0, std::memory_order_relaxed);
    return std::exchange(deferred_, {});
  }
  /// How many are deferred. Any thread, without the lock.
  std::size_t late() const { return late_.load(std::memory_order_relaxed); }

 private:
  std::string device_;
  KeyRegistry keys_;
  AddressHandleRegistry address_handles_;
  QpNumbers qp_numbers_;
  MulticastUsers multicast_users_;
  IdTable<CompletionListener> cqs_;
  IdTable<ControlSrq> srqs_;
  NumberPool pds_;
  NumberPool xrc_domains_;
  XrcFiles xrc_files_;
  XrcSessions xrc_sessions_;
  NumberPool session_numbers_;
  uint32_t sessions_ = 0;
  uint32_t next_engine_ = 0;
  uint64_t last_flow_ = 0;
  std::vector<std::function<void()>> deferred_;
  std::atomic<std::size_t> late_{0};
};

}  // namespace uroce::control
