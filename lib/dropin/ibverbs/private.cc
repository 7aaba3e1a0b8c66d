// Functions of libibverbs that rdma-core's providers call. No provider drives a device here, but programs that link one
// (perftest links libmlx5 and libefa) must load: registering does nothing, and commands to a kernel device fail.
//
// Their version has a number, which grows when rdma-core changes one of them. The table below has all numbers, so that
// providers of all releases since 22 load (tests/abi/libibverbs.symbols).
#include <cerrno>

#include "dropin/ibverbs/query.h"
#include "dropin/ibverbs/texts.h"

extern "C" {

/// A switch that libmlx5 sets from its environment.
[[gnu::used]] bool uroce_disassociate = false;

[[gnu::used]] void uroce_nothing() {}
[[gnu::used]] int uroce_no_command() { return errno = EOPNOTSUPP; }
/// Takes a structure that is private to rdma-core's library, so no caller here can have one.
[[gnu::used]] int uroce_no_file() {
  errno = EINVAL;
  return -1;
}
[[gnu::used]] void* uroce_no_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}
[[gnu::used]] unsigned uroce_same_number(unsigned attributes) { return attributes; }
[[gnu::used]] ibv_context* uroce_open_device(ibv_device* device, void* /*private_data*/) {
  return ibv_open_device(device);
}
[[gnu::used]] int uroce_query_gid_type(ibv_context* context, uint8_t port, unsigned index, uint32_t* type) {
  return uroce::dropin::query_gid_type(context, port, index, type);
}
[[gnu::used]] const char* uroce_wr_opcode_str(ibv_wr_opcode opcode) { return uroce::dropin::text_of(opcode); }

}  // extern "C"

// Each SINCE_N gives `here` to providers as `name` in all versions from N on. Linkers take the newest.
#define VERSION(here, name, version) __asm__(".symver uroce_" #here "," #name version)
#define SINCE_65(here, name) VERSION(here, name, "@@IBVERBS_PRIVATE_65")
#define SINCE_64(here, name)                  \
  VERSION(here, name, "@IBVERBS_PRIVATE_64"); \
  SINCE_65(here, name)
#define SINCE_59(here, name)                  \
  VERSION(here, name, "@IBVERBS_PRIVATE_59"); \
  SINCE_64(here, name)
#define SINCE_34(here, name)                  \
  VERSION(here, name, "@IBVERBS_PRIVATE_34"); \
  VERSION(here, name, "@IBVERBS_PRIVATE_57"); \
  SINCE_59(here, name)
#define SINCE_33(here, name)                  \
  VERSION(here, name, "@IBVERBS_PRIVATE_33"); \
  SINCE_34(here, name)
#define SINCE_25(here, name)                  \
  VERSION(here, name, "@IBVERBS_PRIVATE_25"); \
  SINCE_33(here, name)
#define SINCE_22(here, name)                  \
  VERSION(here, name, "@IBVERBS_PRIVATE_22"); \
  SINCE_25(here, name)

// Its name has the number, too.
VERSION(nothing, verbs_register_driver_22, "@@IBVERBS_PRIVATE_22");
VERSION(nothing, verbs_register_driver_25, "@@IBVERBS_PRIVATE_25");
VERSION(nothing, verbs_register_driver_33, "@@IBVERBS_PRIVATE_33");
VERSION(nothing, verbs_register_driver_34, "@@IBVERBS_PRIVATE_34");
VERSION(nothing, verbs_register_driver_57, "@@IBVERBS_PRIVATE_57");
VERSION(nothing, verbs_register_driver_59, "@@IBVERBS_PRIVATE_59");
VERSION(nothing, verbs_register_driver_64, "@@IBVERBS_PRIVATE_64");
VERSION(nothing, verbs_register_driver_65, "@@IBVERBS_PRIVATE_65");

SINCE_22(disassociate, verbs_allow_disassociate_destroy);
SINCE_22(nothing, verbs_init_cq);
SINCE_22(nothing, verbs_set_ops);
SINCE_22(nothing, verbs_uninit_context);
SINCE_34(nothing, __verbs_log);
SINCE_22(open_device, verbs_open_device);
SINCE_22(query_gid_type, ibv_query_gid_type);
SINCE_34(wr_opcode_str, ibv_wr_opcode_str);
SINCE_25(no_file, ibv_read_ibdev_sysfs_file);
VERSION(no_file, ibv_get_fw_ver, "@IBVERBS_PRIVATE_25");
SINCE_22(same_number, __ioctl_final_num_attrs);
SINCE_22(no_object, _verbs_init_and_alloc_context);
SINCE_64(no_object, ibv_dmabuf_heap_alloc);
SINCE_64(no_object, ibv_dmabuf_heap_cc_shared_init);
SINCE_64(nothing, ibv_dmabuf_heap_destroy);
SINCE_64(nothing, ibv_dmabuf_heap_free);

// Commands to a kernel device.
VERSION(no_command, ibv_cmd_query_device, "@IBVERBS_PRIVATE_22");
VERSION(no_command, ibv_cmd_query_device, "@IBVERBS_PRIVATE_25");
VERSION(no_command, ibv_cmd_query_device_ex, "@IBVERBS_PRIVATE_22");
VERSION(no_command, ibv_cmd_query_device_ex, "@IBVERBS_PRIVATE_25");
SINCE_22(no_command, execute_ioctl);
SINCE_22(no_command, ibv_cmd_advise_mr);
SINCE_22(no_command, ibv_cmd_alloc_dm);
SINCE_59(no_command, ibv_cmd_alloc_dmah);
SINCE_22(no_command, ibv_cmd_alloc_mw);
SINCE_22(no_command, ibv_cmd_alloc_pd);
SINCE_22(no_command, ibv_cmd_attach_mcast);
SINCE_22(no_command, ibv_cmd_close_xrcd);
SINCE_22(no_command, ibv_cmd_create_ah);
SINCE_65(no_command, ibv_cmd_create_comp_cntr);
SINCE_22(no_command, ibv_cmd_create_counters);
SINCE_22(no_command, ibv_cmd_create_cq);
SINCE_22(no_command, ibv_cmd_create_cq_ex);
SINCE_34(no_command, ibv_cmd_create_cq_ex2);
SINCE_22(no_command, ibv_cmd_create_flow);
SINCE_22(no_command, ibv_cmd_create_flow_action_esp);
SINCE_22(no_command, ibv_cmd_create_qp);
SINCE_22(no_command, ibv_cmd_create_qp_ex);
SINCE_22(no_command, ibv_cmd_create_qp_ex2);
SINCE_22(no_command, ibv_cmd_create_rwq_ind_table);
SINCE_22(no_command, ibv_cmd_create_srq);
SINCE_22(no_command, ibv_cmd_create_srq_ex);
SINCE_22(no_command, ibv_cmd_create_wq);
SINCE_22(no_command, ibv_cmd_dealloc_mw);
SINCE_22(no_command, ibv_cmd_dealloc_pd);
SINCE_22(no_command, ibv_cmd_dereg_mr);
SINCE_22(no_command, ibv_cmd_destroy_ah);
SINCE_65(no_command, ibv_cmd_destroy_comp_cntr);
SINCE_22(no_command, ibv_cmd_destroy_counters);
SINCE_22(no_command, ibv_cmd_destroy_cq);
SINCE_22(no_command, ibv_cmd_destroy_flow);
SINCE_22(no_command, ibv_cmd_destroy_flow_action);
SINCE_22(no_command, ibv_cmd_destroy_qp);
SINCE_22(no_command, ibv_cmd_destroy_rwq_ind_table);
SINCE_22(no_command, ibv_cmd_destroy_srq);
SINCE_22(no_command, ibv_cmd_destroy_wq);
SINCE_22(no_command, ibv_cmd_detach_mcast);
SINCE_59(no_command, ibv_cmd_export_dmabuf_fd);
SINCE_22(no_command, ibv_cmd_free_dm);
SINCE_59(no_command, ibv_cmd_free_dmah);
SINCE_22(no_command, ibv_cmd_get_context);
SINCE_65(no_command, ibv_cmd_inc_comp_cntr);
SINCE_65(no_command, ibv_cmd_inc_err_comp_cntr);
SINCE_22(no_command, ibv_cmd_modify_cq);
SINCE_22(no_command, ibv_cmd_modify_flow_action_esp);
SINCE_22(no_command, ibv_cmd_modify_qp);
SINCE_22(no_command, ibv_cmd_modify_qp_ex);
SINCE_22(no_command, ibv_cmd_modify_srq);
SINCE_22(no_command, ibv_cmd_modify_wq);
SINCE_22(no_command, ibv_cmd_open_qp);
SINCE_22(no_command, ibv_cmd_open_xrcd);
SINCE_22(no_command, ibv_cmd_poll_cq);
SINCE_22(no_command, ibv_cmd_post_recv);
SINCE_22(no_command, ibv_cmd_post_send);
SINCE_22(no_command, ibv_cmd_post_srq_recv);
SINCE_65(no_command, ibv_cmd_qp_attach_comp_cntr);
SINCE_65(no_command, ibv_cmd_query_comp_cntr_caps);
SINCE_25(no_command, ibv_cmd_query_context);
SINCE_33(no_command, ibv_cmd_query_device_any);
SINCE_25(no_command, ibv_cmd_query_mr);
SINCE_22(no_command, ibv_cmd_query_port);
SINCE_59(no_command, ibv_cmd_query_port_speed);
SINCE_22(no_command, ibv_cmd_query_qp);
SINCE_22(no_command, ibv_cmd_query_srq);
SINCE_65(no_command, ibv_cmd_read_comp_cntr);
SINCE_22(no_command, ibv_cmd_read_counters);
SINCE_65(no_command, ibv_cmd_read_err_comp_cntr);
SINCE_22(no_command, ibv_cmd_reg_dm_mr);
SINCE_34(no_command, ibv_cmd_reg_dmabuf_mr);
SINCE_22(no_command, ibv_cmd_reg_mr);
SINCE_59(no_command, ibv_cmd_reg_mr_ex);
SINCE_22(no_command, ibv_cmd_req_notify_cq);
SINCE_22(no_command, ibv_cmd_rereg_mr);
SINCE_22(no_command, ibv_cmd_resize_cq);
SINCE_65(no_command, ibv_cmd_set_comp_cntr);
SINCE_65(no_command, ibv_cmd_set_err_comp_cntr);
