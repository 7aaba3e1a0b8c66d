#include "dropin/ibverbs/device_memory.h"

#include "dropin/ibverbs/events.h"

namespace uroce::dropin {

namespace {

/// Devices copy words, and programs learn of a wrong offset from them: mlx5 refuses it, too.
constexpr std::size_t kWord = 4;
/// The memory begins at a page.
constexpr uint32_t kMaxLogAlign = 12;

int memcpy_to_dm(ibv_dm* dm, uint64_t offset, const void* from, std::size_t length) {
  if (offset % kWord != 0 || length % kWord != 0) return failed(EINVAL);
  const auto copied = of(dm)->memory().copy_to(offset, {static_cast<const std::byte*>(from), length});
  return copied ? 0 : report(copied.error());
}

int memcpy_from_dm(void* to, ibv_dm* dm, uint64_t offset, std::size_t length) {
  if (offset % kWord != 0 || length % kWord != 0) return failed(EINVAL);
  const auto copied = of(dm)->memory().copy_from(offset, {static_cast<std::byte*>(to), length});
  return copied ? 0 : report(copied.error());
}

}  // namespace

VerbsDm::VerbsDm(ibv_context* owner, DeviceMemory made)
    : ibv_dm{}, ref(owner), api(std::move(made)), of_parent(nullptr) {
  handle = ref->shared->next_handle++;
  init(owner);
}

VerbsDm::VerbsDm(ibv_context* importer, VerbsDm* imported)
    : ibv_dm{}, ref(importer), parent(imported), of_parent(&imported->users) {
  handle = imported->handle;
  init(importer);
}

void VerbsDm::init(ibv_context* owner) {
  context = owner;
  ibv_dm::memcpy_to_dm = dropin::memcpy_to_dm;
  ibv_dm::memcpy_from_dm = dropin::memcpy_from_dm;
  comp_mask = IBV_DM_MASK_HANDLE;
  live.begin(ObjectKind::dm, this, handle, context);
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  if (attr->comp_mask != 0 || attr->log_align_req > kMaxLogAlign) {
    return refuse_null(EINVAL, "ibv_alloc_dm(): comp_mask is not 0, or log_align_req is beyond that of a page");
  }
  auto memory = of(context)->api.allocate_device_memory(attr->length);
  if (!memory) return report_null(memory.error());
  auto* dm = new VerbsDm(context, std::move(*memory));
  publish(context, &SharedContext::dms, dm->handle, dm);
  return dm;
}

int free_dm(ibv_dm* dm) {
  if (const int error = check_live(dm, ENOENT); error != 0) return error;
  if (of(dm)->users.any()) return failed(EBUSY);
  if (of(dm)->parent == nullptr) withdraw(dm->context, &SharedContext::dms, dm->handle);
  delete of(dm);
  return 0;
}

}  // namespace uroce::dropin

using namespace uroce::dropin;

extern "C" {

ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  const auto found = shared.dms.find(handle);
  if (found == shared.dms.end()) return refuse_null(EINVAL, "ibv_import_dm(): there is no memory of this handle");
  return new VerbsDm(context, found->second);
}

void ibv_unimport_dm(ibv_dm* dm) { delete of(dm); }

}  // extern "C"
