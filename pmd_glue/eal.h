// EAL, started once per process and ended with its owner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sched.h>

#include <uroce/error.h>

namespace uroce::glue {

class Eal {
 public:
  /// `args` without the program name. Notes and EAL's own warnings go to standard error, nothing else is printed.
  /// Errors: EINVAL (an argument is wrong), EALREADY (EAL runs already in this process), or EAL's reason.
  static Result<std::unique_ptr<Eal>> start(const std::vector<std::string>& args);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  /// Ids of the lcores besides the main one.
  const std::vector<unsigned>& workers() const { return workers_; }
  /// Lets the calling thread run where the process could before EAL pinned its caller; for helper threads.
  void unpin() const;

 private:
  Eal() = default;
  bool started_ = true;
  std::vector<unsigned> workers_;
  cpu_set_t affinity_before_{};
  std::string runtime_dir_;  ///< to be removed at the end; empty: not ours
};

}  // namespace uroce::glue
