// EAL, started once per process and ended with its owner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sched.h>

#include <uroce/error.h>

#include "pmd_glue/kif/name.h"
#include "pmd_glue/pci.h"
#include "pmd_glue/xdp/program.h"

namespace uroce::glue {

struct EalPlan;

class Eal {
 public:
  /// Starts EAL with `args`, which have no program name. Notes and EAL's warnings go to standard error; nothing else is
  /// printed. Errors: EINVAL (an argument is wrong), EALREADY (EAL already runs in this process), or EAL's reason.
  static Result<std::unique_ptr<Eal>> start(const std::vector<std::string>& args);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  /// Ids of all lcores but the main one.
  const std::vector<unsigned>& workers() const { return workers_; }
  /// Ports that the arguments name and EAL does not know.
  const std::vector<KernelInterface>& interfaces() const { return interfaces_; }
  /// Gives the calling thread the CPUs that the process had before EAL pinned its caller. Helper threads call it.
  void unpin() const;

 private:
  Eal() = default;
  Result<void> complete_af_xdp(EalPlan& plan);
  bool started_ = true;
  std::vector<unsigned> workers_;
  std::vector<KernelInterface> interfaces_;
  cpu_set_t affinity_before_{};
  PciLocks locks_;
  std::vector<xdp::ProgramFile> xdp_programs_;
  std::string runtime_folder_;  ///< EAL's; empty before EAL has made it
  bool own_prefix_ = false;
};

}  // namespace uroce::glue
