// Functions of libibverbs that rdma-core's providers call. No provider drives a device here, but programs that link one
// (perftest links libmlx5 and libefa) must load: registering does nothing, and commands to a kernel device fail.
#include <cerrno>
#include <cstddef>

extern "C" {

/// A switch that libmlx5 sets from its environment.
[[gnu::visibility("default")]] bool verbs_allow_disassociate_destroy = false;

void verbs_register_driver_34(const void* /*operations*/) {}
void verbs_set_ops(void* /*context*/, const void* /*operations*/) {}
void verbs_uninit_context(void* /*context*/) {}
void verbs_init_cq(void* /*cq*/, void* /*context*/, void* /*channel*/, void* /*cq_context*/) {}
void __verbs_log(void* /*context*/, unsigned /*level*/, const char* /*format*/, ...) {}
unsigned __ioctl_final_num_attrs(unsigned attributes) { return attributes; }

void* _verbs_init_and_alloc_context(void* /*device*/, int /*fd*/, std::size_t /*size*/, void* /*offset*/,
                                    unsigned /*driver*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int execute_ioctl(void* /*context*/, void* /*command*/) { return errno = EOPNOTSUPP; }

#define NO_COMMAND(name) \
  int name() { return errno = EOPNOTSUPP; }

NO_COMMAND(ibv_cmd_advise_mr)
NO_COMMAND(ibv_cmd_alloc_dm)
NO_COMMAND(ibv_cmd_alloc_mw)
NO_COMMAND(ibv_cmd_alloc_pd)
NO_COMMAND(ibv_cmd_attach_mcast)
NO_COMMAND(ibv_cmd_close_xrcd)
NO_COMMAND(ibv_cmd_create_ah)
NO_COMMAND(ibv_cmd_create_counters)
NO_COMMAND(ibv_cmd_create_cq)
NO_COMMAND(ibv_cmd_create_cq_ex)
NO_COMMAND(ibv_cmd_create_flow)
NO_COMMAND(ibv_cmd_create_flow_action_esp)
NO_COMMAND(ibv_cmd_create_qp)
NO_COMMAND(ibv_cmd_create_qp_ex)
NO_COMMAND(ibv_cmd_create_qp_ex2)
NO_COMMAND(ibv_cmd_create_rwq_ind_table)
NO_COMMAND(ibv_cmd_create_srq)
NO_COMMAND(ibv_cmd_create_srq_ex)
NO_COMMAND(ibv_cmd_create_wq)
NO_COMMAND(ibv_cmd_dealloc_mw)
NO_COMMAND(ibv_cmd_dealloc_pd)
NO_COMMAND(ibv_cmd_dereg_mr)
NO_COMMAND(ibv_cmd_destroy_ah)
NO_COMMAND(ibv_cmd_destroy_counters)
NO_COMMAND(ibv_cmd_destroy_cq)
NO_COMMAND(ibv_cmd_destroy_flow)
NO_COMMAND(ibv_cmd_destroy_flow_action)
NO_COMMAND(ibv_cmd_destroy_qp)
NO_COMMAND(ibv_cmd_destroy_rwq_ind_table)
NO_COMMAND(ibv_cmd_destroy_srq)
NO_COMMAND(ibv_cmd_destroy_wq)
NO_COMMAND(ibv_cmd_detach_mcast)
NO_COMMAND(ibv_cmd_free_dm)
NO_COMMAND(ibv_cmd_get_context)
NO_COMMAND(ibv_cmd_modify_cq)
NO_COMMAND(ibv_cmd_modify_flow_action_esp)
NO_COMMAND(ibv_cmd_modify_qp)
NO_COMMAND(ibv_cmd_modify_qp_ex)
NO_COMMAND(ibv_cmd_modify_srq)
NO_COMMAND(ibv_cmd_modify_wq)
NO_COMMAND(ibv_cmd_open_qp)
NO_COMMAND(ibv_cmd_open_xrcd)
NO_COMMAND(ibv_cmd_poll_cq)
NO_COMMAND(ibv_cmd_post_recv)
NO_COMMAND(ibv_cmd_post_send)
NO_COMMAND(ibv_cmd_post_srq_recv)
NO_COMMAND(ibv_cmd_query_context)
NO_COMMAND(ibv_cmd_query_device_any)
NO_COMMAND(ibv_cmd_query_mr)
NO_COMMAND(ibv_cmd_query_port)
NO_COMMAND(ibv_cmd_query_qp)
NO_COMMAND(ibv_cmd_query_srq)
NO_COMMAND(ibv_cmd_read_counters)
NO_COMMAND(ibv_cmd_reg_dm_mr)
NO_COMMAND(ibv_cmd_reg_dmabuf_mr)
NO_COMMAND(ibv_cmd_reg_mr)
NO_COMMAND(ibv_cmd_req_notify_cq)
NO_COMMAND(ibv_cmd_rereg_mr)
NO_COMMAND(ibv_cmd_resize_cq)

}  // extern "C"
