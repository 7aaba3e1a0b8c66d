// The queue pairs of an engine that may have something to send, in the order in which they are served. An intrusive
// list.
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

class RunQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  /// Appends the QP unless it is in the queue.
  void push(Qp& qp) {
    if (qp.on_run_queue) return;
    qp.on_run_queue = true;
    qp.tx.next_in_run_queue = nullptr;
    (tail_ != nullptr ? tail_->tx.next_in_run_queue : head_) = &qp;
    tail_ = &qp;
  }
  /// Nullptr when empty.
  Qp* pop() {
    Qp* qp = head_;
    if (qp == nullptr) return nullptr;
    head_ = qp->tx.next_in_run_queue;
    if (head_ == nullptr) tail_ = nullptr;
    qp->on_run_queue = false;
    return qp;
  }
  void remove(Qp& gone) {
    if (!gone.on_run_queue) return;
    Qp* before = nullptr;
    for (Qp* qp = head_; qp != nullptr; before = qp, qp = qp->tx.next_in_run_queue) {
      if (qp != &gone) continue;
      (before != nullptr ? before->tx.next_in_run_queue : head_) = gone.tx.next_in_run_queue;
      if (tail_ == &gone) tail_ = before;
      break;
    }
    gone.on_run_queue = false;
    gone.tx.next_in_run_queue = nullptr;
  }

 private:
  Qp* head_ = nullptr;
  Qp* tail_ = nullptr;
};

}  // namespace uroce::transport
