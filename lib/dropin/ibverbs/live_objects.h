// The objects that exist. A kernel's device looks each object up by its handle, and answers for one that was destroyed
// or whose handle or context the program changed; here the pointer itself would be followed.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace uroce::dropin {

enum class ObjectKind : uint8_t { pd, dm, mr, mw, channel, cq, srq, qp, ah, xrcd, flow, wq, ind_table, counters };

/// All of the process. Any thread.
class LiveObjects {
 public:
  static LiveObjects& all();
  /// The values that an object was given.
  struct Entry {
    ObjectKind kind;
    uint32_t handle;
    const ibv_context* context;
  };
  void add(const void* object, const Entry& entry);
  void remove(const void* object);
  /// Nullopt where no object of this kind is at this address.
  std::optional<Entry> find(ObjectKind kind, const void* object);

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, Entry> objects_;
};

/// A member of each object: the object is live from begin() until it is destroyed.
class Live {
 public:
  Live() = default;
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
  ~Live() {
    if (object_ != nullptr) LiveObjects::all().remove(object_);
  }
  void begin(ObjectKind kind, const void* object, uint32_t handle, const ibv_context* context) {
    object_ = object;
    LiveObjects::all().add(object, {kind, handle, context});
  }

 private:
  const void* object_ = nullptr;
};

inline ObjectKind kind_of(const ibv_pd* /*type*/) { return ObjectKind::pd; }
inline ObjectKind kind_of(const ibv_dm* /*type*/) { return ObjectKind::dm; }
inline ObjectKind kind_of(const ibv_mr* /*type*/) { return ObjectKind::mr; }
inline ObjectKind kind_of(const ibv_mw* /*type*/) { return ObjectKind::mw; }
inline ObjectKind kind_of(const ibv_comp_channel* /*type*/) { return ObjectKind::channel; }
inline ObjectKind kind_of(const ibv_cq* /*type*/) { return ObjectKind::cq; }
inline ObjectKind kind_of(const ibv_srq* /*type*/) { return ObjectKind::srq; }
inline ObjectKind kind_of(const ibv_qp* /*type*/) { return ObjectKind::qp; }
inline ObjectKind kind_of(const ibv_xrcd* /*type*/) { return ObjectKind::xrcd; }
inline ObjectKind kind_of(const ibv_ah* /*type*/) { return ObjectKind::ah; }
inline ObjectKind kind_of(const ibv_flow* /*type*/) { return ObjectKind::flow; }
inline ObjectKind kind_of(const ibv_wq* /*type*/) { return ObjectKind::wq; }
inline ObjectKind kind_of(const ibv_rwq_ind_table* /*type*/) { return ObjectKind::ind_table; }
inline ObjectKind kind_of(const ibv_counters* /*type*/) { return ObjectKind::counters; }

/// Sets errno to `code` and says which object it is, where UROCE_VERBOSE is set. Returns `code`.
int refuse_dead(ObjectKind kind, const void* object, int code);

/// 0 where the object exists and has the handle and context that it was given, else `code` in errno. Reads nothing of
/// an object that does not exist.
template <class T>
int check_live(const T* object, int code) {
  const ObjectKind kind = kind_of(object);
  const auto given = LiveObjects::all().find(kind, object);
  if (!given || object->context != given->context) return refuse_dead(kind, object, code);
  if constexpr (requires { object->handle; }) {
    if (object->handle != given->handle) return refuse_dead(kind, object, code);
  }
  return 0;
}

/// check_live() of each object that is there; those that may be left out are null.
template <class... T>
int check_all_live(int code, const T*... objects) {
  int error = 0;
  ((error = error != 0 || objects == nullptr ? error : check_live(objects, code)), ...);
  return error;
}

}  // namespace uroce::dropin
