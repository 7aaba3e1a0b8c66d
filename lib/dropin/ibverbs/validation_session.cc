#include "dropin/ibverbs/validation_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/no_cancel.h"
#include "dropin/common/caller.h"

namespace uroce::dropin::validation {

namespace {

/// Memory that is not mapped gives no signal (process_vm_readv(2)). Some sandboxes refuse the call.
validate::ReadResult read_own_memory(uint64_t address, std::span<std::byte> to) {
  const iovec here{to.data(), to.size()};
  const iovec there{reinterpret_cast<void*>(address), to.size()};  // NOLINT(performance-no-int-to-ptr)
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(to.size())) {
    return validate::ReadResult::read;
  }
  if (errno != EFAULT) return validate::ReadResult::unknown;
  // Without privilege the call fails, too, where the page is being moved (lib/sharing). It is mapped then.
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = address / page * page;
  std::vector<unsigned char> present(to.size() / page + 2);
  const int told = mincore(reinterpret_cast<void*>(first),  // NOLINT(performance-no-int-to-ptr)
                           address + to.size() - first, present.data());
  return told != 0 && errno == ENOMEM ? validate::ReadResult::not_mapped : validate::ReadResult::unknown;
}

void before_fork() { Session::get().mutex().lock(); }
void in_parent() { Session::get().mutex().unlock(); }
void in_child() {
  Session::get().mutex().unlock();
  Session::get().after_fork();
}
void at_exit() { Session::get().end(); }

class KeptErrno {
 public:
  KeptErrno() = default;
  ~KeptErrno() { errno = value_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  const int value_ = errno;
};

}  // namespace

bool take(QueueUse& use, const std::string& what) {
  use.order.lock();
  const pid_t self = this_thread();
  const pid_t other = use.user.exchange(self);
  if (!use.one_thread) return true;
  if (other == self) return false;
  if (other != 0) {
    Session::get().tell({validate::Misuse::two_threads, what + " by thread " + std::to_string(self) + " while thread " +
                                                            std::to_string(other) + " uses it"});
  }
  return true;
}

void release(QueueUse& use) {
  use.user = 0;
  use.order.unlock();
}

Session& Session::get() {
  static Session& session = *new Session;  // never destroyed: programs make calls until they exit
  return session;
}

void Session::begin(const validate::Options& options) {
  options_ = options;
  validator_ = std::make_unique<validate::Validator>(read_own_memory);
  findings_ = std::make_unique<validate::Findings>(options);
  pthread_atfork(before_fork, in_parent, in_child);
  std::atexit(at_exit);
}

void Session::after_fork() {
  inherited_ = std::exchange(validator_, std::make_unique<validate::Validator>(read_own_memory));
  findings_->restart();
  queues_.clear();
}

void Session::tell(const validate::Finding& finding) {
  const KeptErrno kept;
  const NoCancel guard;
  const std::string place = calling_place();
  const std::lock_guard lock(mutex_);
  if (const auto line = findings_->add(finding, place)) write(*line);
}

void Session::end() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a signal's handler may end the program
  if (!lock.owns_lock() || (validator_->requests() == 0 && !findings_->any())) return;
  write(findings_->summary(validator_->requests()));
}

void Session::write(const std::string& text) const {
  const std::string line =
      std::string(program_invocation_short_name) + ", process " + std::to_string(getpid()) + ": " + text + "\n";
  constexpr int kAppend = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  const int fd = options_.file.empty() ? -1 : ::open(options_.file.c_str(), kAppend, 0666);
  if (fd < 0) {
    std::fprintf(stderr, "uroce: %s", line.c_str());
    return;
  }
  // One write, so that the lines of several processes do not mix.
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
  ::close(fd);
}

void Session::add_queue(const void* object, Queue queue, bool ordered, bool one_thread) {
  const std::lock_guard lock(mutex_);
  queues_[{object, queue}] = std::make_shared<QueueUse>(ordered, one_thread);
}

void Session::remove_queues(const void* object) {
  const std::lock_guard lock(mutex_);
  for (const Queue queue : {Queue::send, Queue::receive, Queue::completions}) queues_.erase({object, queue});
}

std::string Session::no_object(const char* kind, const void* object) {
  return fmt::format("there is no {} at {}", kind, object);
}

std::shared_ptr<QueueUse> Session::find(const char* kind, const void* object, Queue queue) {
  bool of_parent = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = queues_.find({object, queue}); found != queues_.end()) return found->second;
    of_parent = inherited_ != nullptr && inherited_->knows_queue(object);
  }
  if (of_parent) {
    tell({validate::Misuse::forked_child, std::string("the ") + kind + " was made by the parent of this process"});
  } else {
    tell({validate::Misuse::destroyed_object, no_object(kind, object)});
  }
  return nullptr;
}

bool check_ah(const ibv_qp& qp, const ibv_ah* ah) {
  if (ah == nullptr) return true;
  if (!LiveObjects::all().find(ObjectKind::ah, ah)) {
    tell(validate::Misuse::destroyed_object, Session::no_object("address handle", ah));
    return false;
  }
  if (&of(ah->pd)->domain() != &of(qp.pd)->domain()) {
    tell(validate::Misuse::foreign_ah, fmt::format("address handle {} and queue pair {:#x}", ah->handle, qp.qp_num));
  }
  return true;
}

}  // namespace uroce::dropin::validation
