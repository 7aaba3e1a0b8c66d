// Protection, thread and parent domains as programs hold them, and objects in memory of a parent domain's allocators
// (ibv_alloc_parent_domain(3)).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "dropin/common/report.h"
#include "dropin/ibverbs/buried.h"
#include "dropin/ibverbs/live_objects.h"
#include "dropin/ibverbs/verbs_context.h"

namespace uroce::dropin {

/// A thread domain: one thread at a time uses the objects made in a parent domain that has it.
struct VerbsTd : ibv_td {
  explicit VerbsTd(ibv_context* owner) : ibv_td{}, ref(owner) { context = owner; }
  ContextRef ref;
  Users users;
};

/// The resource_type that a parent domain's allocators are given. The upper 32 bits are those of enum rdma_driver_id,
/// where 0 is unknown.
enum class ObjectMemory : uint64_t { qp = 1, cq = 2, srq = 3, wq = 4 };

/// A parent domain's allocators. Without both of them the library's own are used.
struct Allocators {
  decltype(ibv_parent_domain_init_attr::alloc) alloc = nullptr;
  decltype(ibv_parent_domain_init_attr::free) free = nullptr;
  void* context = nullptr;
};

/// A protection domain, or a parent domain over one.
struct VerbsPd : ibv_pd {
  VerbsPd(ibv_context* owner, ProtectionDomain made)
      : ibv_pd{}, ref(owner), api(std::move(made)), of_parent(nullptr), of_td(nullptr) {
    init(owner);
  }
  VerbsPd(VerbsPd* protection, VerbsTd* thread, const Allocators& given)
      : ibv_pd{},
        ref(protection->context),
        parent(protection),
        td(thread),
        allocators(given),
        of_parent(&protection->users),
        of_td(thread != nullptr ? &thread->users : nullptr) {
    init(protection->context);
  }

  /// The same domain under another context.
  VerbsPd(ibv_context* importer, VerbsPd* imported)
      : ibv_pd{}, ref(importer), parent(imported), of_parent(&imported->users), of_td(nullptr) {
    context = importer;
    handle = imported->handle;
    live.begin(ObjectKind::pd, this, handle, context);
  }

  ContextRef ref;
  std::optional<ProtectionDomain> api;
  VerbsPd* parent = nullptr;
  VerbsTd* td = nullptr;
  Allocators allocators{};
  Users users;
  UseOf of_parent;
  UseOf of_td;
  Live live;

  ProtectionDomain& domain() { return parent != nullptr ? parent->domain() : *api; }
  bool shared_by_threads() const { return td == nullptr; }

 private:
  void init(ibv_context* owner) {
    context = owner;
    handle = ref->shared->next_handle++;
    live.begin(ObjectKind::pd, this, handle, context);
  }
};

inline VerbsPd* of(ibv_pd* pd) { return static_cast<VerbsPd*>(pd); }

/// Where an object's memory is from: the allocators of `domain`, or the library's where there is none.
struct Placement {
  VerbsPd* domain = nullptr;
};

/// A new object of type T, in memory of the domain's allocators if it has any (`domain` may be null). Null with errno
/// where they gave none, or one that is not aligned. destroy() gives it back.
template <class T, class... Arguments>
T* make_in(VerbsPd* domain, Arguments&&... arguments) {
  const Allocators own = domain != nullptr ? domain->allocators : Allocators{};
  void* memory = IBV_ALLOCATOR_USE_DEFAULT;
  const auto type = static_cast<uint64_t>(T::kMemory);
  if (own.alloc != nullptr && own.free != nullptr) {
    memory = own.alloc(domain, own.context, sizeof(T), alignof(T), type);
  }
  if (memory == IBV_ALLOCATOR_USE_DEFAULT) return new T(std::forward<Arguments>(arguments)...);
  if (memory == nullptr) return refuse_null(ENOMEM, "the parent domain's alloc() gave no memory for a new object");
  if (reinterpret_cast<uintptr_t>(memory) % alignof(T) != 0) {
    own.free(domain, own.context, memory, type);
    return refuse_null(EINVAL, "the parent domain's alloc() gave memory that is not aligned as it was asked to be");
  }
  T* const made = new (memory) T(std::forward<Arguments>(arguments)...);
  made->placement = {domain};
  return made;
}

/// Ends an object that make_in() or `new` made.
template <class T>
void destroy(T* object) {
  VerbsPd* const domain = object->placement.domain;
  if (domain == nullptr) {
    if (validation::on()) return validation::bury<typename T::Public>(object);
    delete object;
    return;
  }
  const UseOf until_freed(&domain->users);
  object->~T();
  domain->allocators.free(domain, domain->allocators.context, object, static_cast<uint64_t>(T::kMemory));
}

}  // namespace uroce::dropin
