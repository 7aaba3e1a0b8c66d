// ibv_wr_*() and ibv_start_poll() with its like, where UROCE_VALIDATE is set: calls that follow each other.
#include <fmt/format.h>
#include <unistd.h>

#include <mutex>

#include "dropin/ibverbs/cq.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/validated_calls.h"
#include "dropin/ibverbs/validation_session.h"

namespace uroce::dropin::validation {

namespace {

using validate::Found;
using validate::Misuse;
using validate::Validator;
using Queue = Session::Queue;

// The ordinary calls, which all queue pairs and all extended completion queues have in common.
later::QpEx ordinary{};
ibv_cq_ex ordinary_cq{};

std::shared_ptr<QueueUse> list_of(ibv_qp_ex* qp) { return Session::get().find("queue pair", qp, Queue::send); }

std::string name_of(const ibv_qp_ex* qp) { return fmt::format("a list for queue pair {:#x}", qp->qp_base.qp_num); }

/// False where there is no queue to build a list for.
bool may_build(ibv_qp_ex* qp, bool sets) {
  const auto use = list_of(qp);
  if (use == nullptr) return false;
  if (!use->begun) {
    tell(Misuse::wr_order, name_of(qp) + " was not begun by ibv_wr_start()");
  } else if (sets && of(qp)->list.current() == nullptr && of(qp)->list.error() == 0) {
    tell(Misuse::wr_order, name_of(qp) + " has no operation that a setter could change");
  }
  return true;
}

/// An operation or a setter.
template <auto Member, bool Sets>
struct InOrder;
template <class Table, class... A, void (*Table::*Member)(ibv_qp_ex*, A...), bool Sets>
struct InOrder<Member, Sets> {
  static void call(ibv_qp_ex* qp, A... arguments) {
    if (may_build(qp, Sets)) (ordinary.*Member)(qp, arguments...);
  }
};

void check_inline(ibv_qp_ex* qp, std::size_t length) {
  const uint32_t most = of(qp)->api.cap().max_inline_data;
  if (length <= most) return;
  tell(Misuse::inline_too_long, fmt::format("{} has {} inline bytes of {}", name_of(qp), length, most));
}

void set_inline_data(ibv_qp_ex* qp, void* bytes, std::size_t length) {
  if (!may_build(qp, true)) return;
  check_inline(qp, length);
  ordinary.wr_set_inline_data(qp, bytes, length);
}

void set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  if (!may_build(qp, true)) return;
  std::size_t length = 0;
  for (std::size_t i = 0; i < count; ++i) length += list[i].length;
  check_inline(qp, length);
  ordinary.wr_set_inline_data_list(qp, count, list);
}

void set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  if (!may_build(qp, true)) return;
  const uint32_t most = of(qp)->api.cap().max_send_sge;
  if (count > most) {
    tell(Misuse::too_many_sges, fmt::format("{} has a request of {} entries of {}", name_of(qp), count, most));
  }
  ordinary.wr_set_sge_list(qp, count, list);
}

void set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  if (!may_build(qp, true)) return;
  // The list then fails with EINVAL.
  ordinary.wr_set_ud_addr(qp, check_ah(qp->qp_base, ah) ? ah : nullptr, qpn, qkey);
}

void wr_start(ibv_qp_ex* qp) {
  const auto use = list_of(qp);
  if (use == nullptr) return;
  if (use->begun && use->user == this_thread()) {
    return tell(Misuse::wr_order, name_of(qp) + " is begun again");  // it would wait for itself
  }
  take(*use, "ibv_wr_start() for " + name_of(qp));
  use->begun = true;
  ordinary.wr_start(qp);
}

/// False where no list was begun.
bool end_list(QueueUse& use, ibv_qp_ex* qp) {
  if (use.begun.exchange(false)) return true;
  tell(Misuse::wr_order, name_of(qp) + " ends, and was not begun by ibv_wr_start()");
  return false;
}

int wr_complete(ibv_qp_ex* qp) {
  const auto use = list_of(qp);
  if (use == nullptr || !end_list(*use, qp)) return EINVAL;
  const auto requests = of(qp)->list.error() == 0 ? of(qp)->list.requests() : std::span<const SendRequest>();
  const std::size_t count = requests.size();
  Session::get().with([&](Validator& validator) {
    Found found;
    for (const SendRequest& one : requests) append(found, validator.post_send(qp, one));
    return found;
  });
  const int error = ordinary.wr_complete(qp);
  if (error != 0) note([&](Validator& validator) { validator.unpost_send(qp, count); });
  release(*use);
  return error;
}

void wr_abort(ibv_qp_ex* qp) {
  const auto use = list_of(qp);
  if (use == nullptr || !end_list(*use, qp)) return;
  ordinary.wr_abort(qp);
  release(*use);
}

std::shared_ptr<QueueUse> completions_of(ibv_cq_ex* cq) {
  return Session::get().find("completion queue", cq, Queue::completions);
}

/// The program has the current completion.
int took(ibv_cq_ex* cq, int result) {
  if (result != 0) return result;
  const Completion& current = of(cq)->current;
  Session::get().with([&](Validator& validator) {
    return validator.completed(cq, {current.wr_id, current.qpn, current.status == WcStatus::success,
                                    (static_cast<unsigned>(current.opcode) & IBV_WC_RECV) != 0});
  });
  return result;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  const auto use = completions_of(cq);
  if (use == nullptr) return EINVAL;
  const std::string what = fmt::format("ibv_start_poll() on completion queue {}", cq->handle);
  const bool mine = take(*use, what);
  const int result = ordinary_cq.start_poll(cq, attr);
  if (result == 0) {
    use->begun = true;
  } else if (mine) {
    release(*use);
  }
  return took(cq, result);
}

/// False where there is nothing to go on with.
bool polls(const QueueUse* use, const ibv_cq_ex* cq, const char* call) {
  if (use == nullptr) return false;
  if (use->begun) return true;
  tell(Misuse::poll_order,
       fmt::format("{} on completion queue {}, without ibv_start_poll() that returned 0", call, cq->handle));
  return false;
}

int next_poll(ibv_cq_ex* cq) {
  return polls(completions_of(cq).get(), cq, "ibv_next_poll()") ? took(cq, ordinary_cq.next_poll(cq)) : EINVAL;
}

void end_poll(ibv_cq_ex* cq) {
  const auto use = completions_of(cq);
  if (!polls(use.get(), cq, "ibv_end_poll()")) return;
  use->begun = false;
  ordinary_cq.end_poll(cq);
  release(*use);
}

template <auto Member, bool Sets = false>
void put_in_order(VerbsQp& qp) {
  qp.*Member = InOrder<Member, Sets>::call;
}

}  // namespace

void replace_operations(VerbsQp& qp) {
  if (!on()) return;
  static std::once_flag kept;
  std::call_once(kept, [&qp] { ordinary = qp; });
  put_in_order<&later::QpEx::wr_atomic_cmp_swp>(qp);
  put_in_order<&later::QpEx::wr_atomic_fetch_add>(qp);
  put_in_order<&later::QpEx::wr_bind_mw>(qp);
  put_in_order<&later::QpEx::wr_local_inv>(qp);
  put_in_order<&later::QpEx::wr_rdma_read>(qp);
  put_in_order<&later::QpEx::wr_rdma_write>(qp);
  put_in_order<&later::QpEx::wr_rdma_write_imm>(qp);
  put_in_order<&later::QpEx::wr_send>(qp);
  put_in_order<&later::QpEx::wr_send_imm>(qp);
  put_in_order<&later::QpEx::wr_send_inv>(qp);
  put_in_order<&later::QpEx::wr_send_tso>(qp);
  put_in_order<&later::QpEx::wr_set_xrc_srqn, true>(qp);
  put_in_order<&later::QpEx::wr_set_sge, true>(qp);
  put_in_order<&later::QpEx::wr_atomic_write>(qp);
  put_in_order<&later::QpEx::wr_flush>(qp);
  qp.wr_set_ud_addr = set_ud_addr;
  qp.wr_set_inline_data = set_inline_data;
  qp.wr_set_inline_data_list = set_inline_data_list;
  qp.wr_set_sge_list = set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
}

void replace_operations(VerbsCq& cq) {
  if (!on()) return;
  static std::once_flag kept;
  std::call_once(kept, [&cq] { ordinary_cq = cq; });
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
}

}  // namespace uroce::dropin::validation
