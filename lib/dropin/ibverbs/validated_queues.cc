#include "dropin/ibverbs/validated_calls.h"

#include <fmt/format.h>

#include <span>

#include "base/wr_opcodes.h"
#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/cq.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/srq.h"
#include "dropin/ibverbs/validation_session.h"
#include "dropin/ibverbs/window.h"

namespace uroce::dropin::validation {

namespace {

using validate::Found;
using validate::Misuse;
using validate::Validator;
using Queue = Session::Queue;

/// A queue that this thread has for a call.
class Turn {
 public:
  Turn(QueueUse& use, const std::string& what) : use_(take(use, what) ? &use : nullptr) {}
  ~Turn() {
    if (use_ != nullptr) release(*use_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  QueueUse* use_;
};

/// False where following `next` comes back (Floyd's two walkers).
template <class Wr>
bool ends(const Wr* list, const std::string& what) {
  for (const Wr* fast = list; fast != nullptr && fast->next != nullptr;) {
    list = list->next;
    fast = fast->next->next;
    if (list == fast && fast != nullptr) {
      tell(Misuse::list_loop, what);
      return false;
    }
  }
  return true;
}

/// Nothing of the list is posted.
template <class Wr>
int refuse_list(Wr* list, Wr** bad) {
  *bad = list;
  return EINVAL;
}

/// How many requests there are from `wr` to the end, if any were refused.
template <class Wr>
std::size_t count_from(int error, const Wr* wr) {
  std::size_t count = 0;
  for (; error != 0 && wr != nullptr; wr = wr->next) ++count;
  return count;
}

std::span<const Sge> entries_of(const auto& wr) {
  return as_sges(wr.sg_list, wr.num_sge > 0 ? static_cast<std::size_t>(wr.num_sge) : 0);
}

SendRequest request_of(ibv_qp_type type, const ibv_send_wr& wr) {
  SendRequest request;
  request.wr_id = wr.wr_id;
  request.opcode = to_api<WrOpcode>(number_of(wr.opcode));
  request.flags = SendFlags::from_bits(wr.send_flags);
  request.sges = entries_of(wr);
  if (type == IBV_QPT_UD) request.ah = of(wr.wr.ud.ah)->handle;
  if (is_atomic(request.opcode)) request.remote_addr = wr.wr.atomic.remote_addr;
  return request;
}

bool check_ahs(const ibv_qp& qp, const ibv_send_wr* wr) {
  for (; qp.qp_type == IBV_QPT_UD && wr != nullptr; wr = wr->next) {
    if (!check_ah(qp, wr->wr.ud.ah)) return false;
  }
  return true;
}

/// Runs `call`, which returns what it found.
void with(const auto& call) { Session::get().with(call); }

int validated_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  const auto use = Session::get().find("queue pair", qp, Queue::send);
  if (use == nullptr) return refuse_list(wr, bad);
  const std::string what = fmt::format("ibv_post_send() on queue pair {:#x}", qp->qp_num);
  if (!ends(wr, what)) return refuse_list(wr, bad);
  const Turn turn(*use, what);
  if (!check_ahs(*qp, wr)) return refuse_list(wr, bad);
  with([&](Validator& validator) {
    Found found;
    for (const auto* one = wr; one != nullptr; one = one->next) {
      const bool addressed = qp->qp_type != IBV_QPT_UD || one->wr.ud.ah != nullptr;
      append(found, validator.post_send(qp, addressed ? request_of(qp->qp_type, *one) : SendRequest{}));
    }
    return found;
  });
  const int error = post_send(qp, wr, bad);
  if (error != 0) note([&](Validator& validator) { validator.unpost_send(qp, count_from(error, *bad)); });
  return error;
}

int validated_bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  const auto use = Session::get().find("queue pair", qp, Queue::send);
  if (use == nullptr) return EINVAL;
  const Turn turn(*use, fmt::format("ibv_bind_mw() on queue pair {:#x}", qp->qp_num));
  SendRequest request;
  request.wr_id = bind->wr_id;
  request.opcode = WrOpcode::bind_mw;
  request.flags = SendFlags::from_bits(bind->send_flags);
  with([&](Validator& validator) { return validator.post_send(qp, request); });
  const int error = bind_mw(qp, mw, bind);
  if (error != 0) note([&](Validator& validator) { validator.unpost_send(qp, 1); });
  return error;
}

/// The calls that post receives to one kind of queue.
struct ReceiveCalls {
  const char* kind;
  const char* call;
  Found (Validator::*post)(validate::Id queue, const RecvRequest& request);
  void (Validator::*unpost)(validate::Id queue, std::size_t newest);
};

template <class Object>
int post_receives(const ReceiveCalls& calls, Object* queue, int (*post)(Object*, ibv_recv_wr*, ibv_recv_wr**),
                  ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const auto use = Session::get().find(calls.kind, queue, Queue::receive);
  if (use == nullptr) return refuse_list(wr, bad);
  const std::string what = fmt::format("{} on a {}", calls.call, calls.kind);
  if (!ends(wr, what)) return refuse_list(wr, bad);
  const Turn turn(*use, what);
  with([&](Validator& validator) {
    Found found;
    for (const auto* one = wr; one != nullptr; one = one->next) {
      append(found, (validator.*calls.post)(queue, {one->wr_id, entries_of(*one)}));
    }
    return found;
  });
  const int error = post(queue, wr, bad);
  if (error != 0) note([&](Validator& validator) { (validator.*calls.unpost)(queue, count_from(error, *bad)); });
  return error;
}

int validated_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  constexpr ReceiveCalls kCalls{"queue pair", "ibv_post_recv()", &Validator::post_receive, &Validator::unpost_receive};
  return post_receives(kCalls, qp, post_recv, wr, bad);
}

int validated_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  constexpr ReceiveCalls kCalls{"shared receive queue", "ibv_post_srq_recv()", &Validator::post_srq_receive,
                                &Validator::unpost_srq_receive};
  return post_receives(kCalls, srq, post_srq_recv, wr, bad);
}

decltype(ibv_wq::post_recv) ordinary_post_wq_recv = nullptr;

int validated_post_wq_recv(ibv_wq* wq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  constexpr ReceiveCalls kCalls{"receive work queue", "ibv_post_wq_recv()", &Validator::post_receive,
                                &Validator::unpost_receive};
  return post_receives(kCalls, wq, ordinary_post_wq_recv, wr, bad);
}

int validated_poll_cq(ibv_cq* cq, int entries, ibv_wc* wc) {
  const auto use = Session::get().find("completion queue", cq, Queue::completions);
  if (use == nullptr) return -EINVAL;
  const Turn turn(*use, fmt::format("ibv_poll_cq() on completion queue {}", cq->handle));
  const int count = poll_cq(cq, entries, wc);
  if (count <= 0) return count;
  with([&](Validator& validator) {
    Found found;
    for (const ibv_wc& one : std::span(wc, static_cast<std::size_t>(count))) {
      append(found, validator.completed(cq, {one.wr_id, one.qp_num, one.status == IBV_WC_SUCCESS,
                                             (number_of(one.opcode) & IBV_WC_RECV) != 0}));
    }
    return found;
  });
  return count;
}

int validated_req_notify_cq(ibv_cq* cq, int solicited_only) {
  const auto use = Session::get().find("completion queue", cq, Queue::completions);
  return use != nullptr ? req_notify_cq(cq, solicited_only) : EINVAL;
}

}  // namespace

void replace_operations(VerbsContext& context) {
  if (!on()) return;
  ibv_context_ops& ops = context.context.ops;
  ops.bind_mw = validated_bind_mw;
  ops.poll_cq = validated_poll_cq;
  ops.req_notify_cq = validated_req_notify_cq;
  ops.post_srq_recv = validated_post_srq_recv;
  ops.post_send = validated_post_send;
  ops.post_recv = validated_post_recv;
}

void replace_operations(VerbsWq& wq) {
  if (!on()) return;
  ordinary_post_wq_recv = wq.post_recv;
  wq.post_recv = validated_post_wq_recv;
}

}  // namespace uroce::dropin::validation
