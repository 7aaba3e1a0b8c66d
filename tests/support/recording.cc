#include "tests/support/recording.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "tests/support/memory.h"

namespace uroce::test {

bool Recording::wanted() {
  static const bool wanted = std::getenv("UROCE_TEST_RECORD") != nullptr;
  return wanted;
}

Recording::Recording(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "no memory for a recording");
  memory_ = {static_cast<std::byte*>(memory), bytes};
  new (memory) record::FileHead;
  recorder_ = std::make_unique<record::Recorder>(memory_);
}

Recording::~Recording() {
  if (memory_.empty()) return;
  // Benchmarks measure what recording costs.
  static const bool replays = wanted() && std::string_view(std::getenv("UROCE_TEST_RECORD")) != "only";
  if (replays) {
    const record::Report report = replay();
    if (report.divergence) {
      std::fprintf(stderr, "the replay of an engine diverges: %s\n", report.divergence->c_str());
      std::abort();
    }
    static const bool verbose = std::getenv("UROCE_TEST_RECORD_VERBOSE") != nullptr;
    if (verbose) {
      std::fprintf(stderr, "replayed: %lu records, %lu frames in, %lu out, %lu completions%s\n", report.records,
                   report.frames_in, report.frames_out, report.completions, report.cut ? ", cut" : "");
    }
  }
  recorder_.reset();
  munmap(memory_.data(), memory_.size());
}

}  // namespace uroce::test
