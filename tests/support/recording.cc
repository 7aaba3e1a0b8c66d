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

Recording::Recording(std::size_t bytes, std::size_t part_bytes) {
  const char* const asked = std::getenv("UROCE_TEST_RECORD_PART");
  if (part_bytes == 0 && asked != nullptr) part_bytes = std::strtoul(asked, nullptr, 10);

  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "no memory for a recording");
  memory_ = {static_cast<std::byte*>(memory), bytes};
  record::lay_out(memory_, part_bytes != 0 ? static_cast<uint32_t>(bytes / part_bytes) : record::kParts);
  require(record::collect(memory_).has_value(), "a part of a recording is too small");
  recorder_ = std::make_unique<record::Recorder>(memory_);
}

record::Report Recording::replay() const {
  const auto all = records();
  return record::Replayer(all).run();
}

record::Report Recording::replay_pieces() const {
  const record::Collected all = collected();
  record::Report report;
  for (std::size_t i = 0; i < all.keyframes.size(); ++i) {
    const std::size_t end = i + 3 < all.keyframes.size() ? all.keyframes[i + 3] : all.records.size();
    report = record::Replayer(std::span(all.records).subspan(all.keyframes[i], end - all.keyframes[i])).run();
    if (report.divergence) return report;
  }
  return report;
}

Recording::~Recording() {
  if (memory_.empty()) return;
  // Benchmarks measure what recording costs.
  static const bool replays = wanted() && std::string_view(std::getenv("UROCE_TEST_RECORD")) != "only";
  if (replays) {
    const record::Report report = replay();
    const record::Report pieces = replay_pieces();
    for (const auto& divergence : {report.divergence, pieces.divergence}) {
      if (!divergence) continue;
      std::fprintf(stderr, "the replay of an engine diverges: %s\n", divergence->c_str());
      std::abort();
    }
    static const bool verbose = std::getenv("UROCE_TEST_RECORD_VERBOSE") != nullptr;
    if (verbose) {
      std::fprintf(stderr,
                   "replayed: %lu bytes, %lu records, %lu keyframes, %lu frames in, %lu out, %lu completions%s\n",
                   recorder_->written(), report.records, report.keyframes, report.frames_in, report.frames_out,
                   report.completions, report.cut ? ", cut" : "");
    }
  }
  recorder_.reset();
  munmap(memory_.data(), memory_.size());
}

}  // namespace uroce::test
