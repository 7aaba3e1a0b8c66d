// The first ABI, of 2006, whose structures have another layout. Programs linked against it get an error, not a crash.
#include "dropin/common/report.h"

namespace {

int no_success() {
  return uroce::dropin::refuse(EOPNOTSUPP, "the program uses the verbs ABI of 2006 (IBVERBS_1.0); build it anew");
}
void* no_object() {
  no_success();
  return nullptr;
}

}  // namespace

#define COMPAT(type, name, value)                              \
  extern "C" [[gnu::used]] type uroce_1_0_##name();            \
  type uroce_1_0_##name() { return static_cast<type>(value); } \
  __asm__(".symver uroce_1_0_" #name "," #name "@IBVERBS_1.0")

#define NO_OBJECT(name) COMPAT(void*, name, no_object())
#define NO_SUCCESS(name) COMPAT(int, name, no_success())
#define NOTHING(name) COMPAT(void, name, no_success())

NO_OBJECT(ibv_alloc_pd);
NO_OBJECT(ibv_create_ah);
NO_OBJECT(ibv_create_cq);
NO_OBJECT(ibv_create_qp);
NO_OBJECT(ibv_create_srq);
NO_OBJECT(ibv_get_device_list);
NO_OBJECT(ibv_get_device_name);
NO_OBJECT(ibv_open_device);
NO_OBJECT(ibv_reg_mr);
NOTHING(ibv_ack_async_event);
NOTHING(ibv_ack_cq_events);
NOTHING(ibv_free_device_list);
NO_SUCCESS(ibv_attach_mcast);
NO_SUCCESS(ibv_close_device);
NO_SUCCESS(ibv_dealloc_pd);
NO_SUCCESS(ibv_dereg_mr);
NO_SUCCESS(ibv_destroy_ah);
NO_SUCCESS(ibv_destroy_cq);
NO_SUCCESS(ibv_destroy_qp);
NO_SUCCESS(ibv_destroy_srq);
NO_SUCCESS(ibv_detach_mcast);
NO_SUCCESS(ibv_get_async_event);
NO_SUCCESS(ibv_get_cq_event);
COMPAT(unsigned long, ibv_get_device_guid, 0);
NO_SUCCESS(ibv_modify_qp);
NO_SUCCESS(ibv_modify_srq);
NO_SUCCESS(ibv_query_device);
NO_SUCCESS(ibv_query_gid);
NO_SUCCESS(ibv_query_pkey);
NO_SUCCESS(ibv_query_port);
NO_SUCCESS(ibv_query_qp);
NO_SUCCESS(ibv_query_srq);
NO_SUCCESS(ibv_resize_cq);

// How providers registered before rdma-core 14: a symbol without a default version.
#undef COMPAT
extern "C" [[gnu::used]] void uroce_1_1_ibv_register_driver();
void uroce_1_1_ibv_register_driver() {}
__asm__(".symver uroce_1_1_ibv_register_driver,ibv_register_driver@IBVERBS_1.1");
