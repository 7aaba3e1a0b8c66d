#include "perf/status.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "base/status_names.h"

namespace uroce::perf {
namespace {

constexpr int kTries = 8;  ///< the first and seven retries

/// Threads of this machine that run or want to run; 0 where the kernel does not say.
uint32_t runnable_threads() {
  std::ifstream file("/proc/loadavg");
  std::string minute, five, fifteen;
  uint32_t runnable = 0;
  return file >> minute >> five >> fifteen >> runnable ? runnable : 0;
}

std::string advice(WcStatus status, const Endpoint& endpoint, const Options& options) {
  const std::string peer = to_text(endpoint.peer().gid);
  switch (status) {
    case WcStatus::retry_exceeded:
      return fmt::format("the peer at {} did not answer for about {:.1f} s; {}", peer,
                         retry_budget_s(options.qp_timeout),
                         silence_advice(runnable_threads(), std::thread::hardware_concurrency()));
    case WcStatus::rnr_retry_exceeded: return fmt::format("the peer at {} had no receive posted; raise -r there", peer);
    case WcStatus::remote_access_error:
      return fmt::format(
          "the peer at {} refused access to its memory; were both sides started with the same "
          "options?",
          peer);
    case WcStatus::remote_invalid_request:
      return fmt::format("the peer at {} refused the request as invalid; are both sides of the same release?", peer);
    case WcStatus::local_length_error: return "a message was longer than its receive; give both sides the same -s";
    case WcStatus::flushed: return "the QP had failed before";
    default: return fmt::format("the peer is {}", peer);
  }
}

}  // namespace

double retry_budget_s(uint8_t qp_timeout) {
  return qp_timeout == 0 ? 0 : kTries * 4.096e-6 * static_cast<double>(uint64_t{1} << qp_timeout);
}

std::string silence_advice(uint32_t runnable, uint32_t cpus) {
  if (runnable > cpus) {
    return fmt::format("{} threads want the {} CPUs of this machine: end other programs, or wait longer with -u",
                       runnable, cpus);
  }
  return "check that it runs and gets a CPU there, and that the network carries UDP port 4791, or wait longer with -u";
}

std::string explain(const Completion& completion, const Endpoint& endpoint, const Options& options) {
  return fmt::format("{} (QP {:#x} of {}: {})", advice(completion.status, endpoint, options), completion.qpn,
                     endpoint.info().name, status_name(completion.status));
}

}  // namespace uroce::perf
