// Pages that one thread touches for the first time while another registers them. busy.cc uses it.
#pragma once

#include <atomic>
#include <thread>

#include "ordinary.h"

namespace ordinary {

class FirstTouches {
 public:
  /// Registers piece after piece until `stop`; how many.
  std::size_t run(ibv_pd* pd, Random random, const std::atomic<bool>& stop) {
    Byte* const fresh = map_pages(kPages);
    std::thread other([this] { touch(); });
    std::size_t pieces = 0;
    for (; !stop; ++pieces) {
      const std::size_t at = pieces * kPiece % kPages;
      if (at == 0 && raw_madvise(fresh, kPages * kPage, MADV_DONTNEED) != 0) die("madvise: %s", std::strerror(errno));
      piece_ = fresh + at * kPage;
      touched_ = random.below(1U << kPiece);
      ++begun_;
      register_and_deregister(pd, piece_, kPiece * kPage);
      while (done_ != begun_) std::this_thread::yield();
      check();
    }
    over_ = true;
    ++begun_;
    other.join();
    return pieces;
  }

 private:
  static constexpr std::size_t kPages = 4096, kPiece = 16;

  bool is_touched(std::size_t page) const { return (touched_ >> page & 1) != 0; }
  void touch() {
    for (;; ++done_) {
      while (begun_ == done_) std::this_thread::yield();
      if (over_) return;
      for (std::size_t page = 0; page < kPiece; ++page) {
        if (is_touched(page)) piece_[page * kPage + page] = static_cast<Byte>(page + 1);
      }
    }
  }
  void check() const {
    for (std::size_t i = 0; i < kPiece * kPage; ++i) {
      const std::size_t page = i / kPage;
      const int wanted = i % kPage == page && is_touched(page) ? static_cast<int>(page) + 1 : 0, is = piece_[i];
      if (is != wanted) die("fault: byte %zu of a piece: expected %d, found %d", i, wanted, is);
    }
  }

  std::atomic<std::size_t> begun_{0}, done_{0};
  std::atomic<bool> over_{false};
  // Of the piece that has begun.
  Byte* piece_ = nullptr;
  uint64_t touched_ = 0;
};

}  // namespace ordinary
