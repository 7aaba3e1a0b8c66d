// Device memory (ibv_alloc_dm(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

struct VerbsDm : ibv_dm {
  VerbsDm(ibv_context* owner, DeviceMemory made);
  /// The same memory under another context.
  VerbsDm(ibv_context* importer, VerbsDm* imported);
  ContextRef ref;
  std::optional<DeviceMemory> api;
  VerbsDm* parent = nullptr;
  Users users;
  UseOf of_parent;
  Live live;

  DeviceMemory& memory() { return parent != nullptr ? parent->memory() : *api; }

 private:
  void init(ibv_context* owner);
};

inline VerbsDm* of(ibv_dm* dm) { return static_cast<VerbsDm*>(dm); }

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);

}  // namespace uroce::dropin
