// A device and an open one, as programs hold them, and how the objects made from it keep it and each other.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <uroce/verbs/context.h>

#include "dropin/ibverbs/wall_clock.h"

namespace uroce::dropin {

/// Begins as rdma-core's own struct verbs_device (private ABI 34) does: libmlx5 and its like, which perftest links,
/// compare `ops` to find out whether a device is theirs.
struct VerbsDevice : ibv_device {
  const void* ops = nullptr;
  int unused_refcount = 1;
  void* unused_list[2] = {};
  void* unused_sysfs = nullptr;
  uint64_t core_support = 0;

  uint64_t guid = 0;
  int index = 0;
};

struct VerbsCq;
struct VerbsQp;
struct VerbsSrq;
struct VerbsWq;

class ImplicitRegion;
struct ReceiveScaling;
struct VerbsDm;
struct VerbsMr;
struct VerbsPd;

/// An open device: shared by the context that opened it and those that imported it (ibv_import_device(3)).
struct SharedContext {
  explicit SharedContext(Context opened) : api(std::move(opened)) {}

  Context api;
  WallClock wall_clock;
  std::atomic<uint32_t> next_handle{1};
  std::atomic<bool> has_windows{false};   ///< a memory window was created at some time
  std::atomic<bool> has_implicit{false};  ///< likewise an implicit region (on_demand.h)

  std::mutex mutex;  ///< guards the maps, and each object's count of delivered events
  std::unordered_map<uint32_t, VerbsCq*> cqs;
  std::unordered_map<uint32_t, VerbsQp*> qps;
  std::unordered_map<uint32_t, VerbsSrq*> srqs;
  std::unordered_map<uint32_t, VerbsWq*> wqs;
  std::unordered_map<uint32_t, VerbsPd*> pds;  ///< by handle, as the maps below
  std::unordered_map<uint32_t, VerbsMr*> mrs;
  std::unordered_map<uint32_t, VerbsDm*> dms;
  std::unordered_map<uint32_t, VerbsMr*> on_demand;  ///< by lkey
};

/// One ibv_open_device() or ibv_import_device(). Lives until it is closed and the last of its objects is gone.
struct VerbsContext : verbs_context {
  explicit VerbsContext(std::shared_ptr<SharedContext> of) : verbs_context{}, shared(std::move(of)), api(shared->api) {}

  std::shared_ptr<SharedContext> shared;
  Context& api;
  std::atomic<int> references{1};

  const DeviceInfo& info() const { return api.info(); }
  /// The GID table now; without the daemon, the one that it had.
  std::vector<Gid> gids() const { return api.gids().value_or(api.info().gids); }
};

inline VerbsContext* of(ibv_context* context) { return static_cast<VerbsContext*>(verbs_get_ctx(context)); }

/// A context's share in every object made from it.
class ContextRef {
 public:
  explicit ContextRef(ibv_context* context) : context_(of(context)) { ++context_->references; }
  ContextRef(const ContextRef&) = delete;
  ContextRef& operator=(const ContextRef&) = delete;
  ~ContextRef() { release(context_); }

  VerbsContext* operator->() const { return context_; }
  /// Drops one reference, and the context with the last.
  static void release(VerbsContext* context);

 private:
  VerbsContext* context_;
};

/// Counts the objects that use another one, which then cannot be destroyed (EBUSY), as in the kernel.
class Users {
 public:
  bool any() const { return *count_ != 0; }

 private:
  friend class UseOf;
  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
};

/// One user. It may outlive what it uses: an imported domain can go before the objects that were made in it.
class UseOf {
 public:
  explicit UseOf(const Users* users) : count_(users != nullptr ? users->count_ : nullptr) {
    if (count_) ++*count_;
  }
  UseOf(const UseOf&) = delete;
  UseOf& operator=(const UseOf&) = delete;
  ~UseOf() {
    if (count_) --*count_;
  }

 private:
  std::shared_ptr<std::atomic<int>> count_;
};

}  // namespace uroce::dropin
