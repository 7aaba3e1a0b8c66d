// Holds back pthread_cancel(3) for the time of a call.
#pragma once

#include <pthread.h>

namespace uroce {

/// While it lives, the calling thread is not cancelled; a request waits for the next cancellation point after it. Calls
/// of verbs are no cancellation points but for those that wait for events, and end what they have begun. Without this a
/// request would act in close(2) and its like, also within a destructor, where unwinding ends the program.
class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace uroce
