// Pages that one thread unmaps, maps anew, moves and protects, while regions over them begin and end. busy.cc uses it.
#pragma once

#include <functional>
#include <utility>

#include "ordinary.h"

namespace ordinary {

/// Each page has a number in its first and its last word, and zeros between. The number changes with each step.
class Moves {
 public:
  static constexpr std::size_t kPages = 128, kLongest = 16;

  /// `pd` when each piece is registered before it is changed, and its region ends afterwards; else null.
  Moves(Byte* memory, ibv_pd* pd, Random random) : memory_(memory), pd_(pd), random_(random) {
    for (std::size_t page = 0; page < kPages; ++page) stamp(page);
  }

  /// One of the things that a program may do with its memory, on a random piece.
  void step() {
    first_ = random_.below(kPages - kLongest), pages_ = 1 + random_.below(kLongest);
    static constexpr std::array<void (Moves::*)(), 6> kSteps = {
        &Moves::map_anew, &Moves::replace, &Moves::move_and_back, &Moves::zero, &Moves::leave_a_hole, &Moves::protect};
    for_piece([&](std::size_t page) { check(page, "before a step"); });
    if (pd_ != nullptr) region_ = must_register(pd_, piece(), bytes());
    for_piece([&](std::size_t page) { stamp(page); });
    // A registration at that moment may bring the old protection back.
    (this->*kSteps[random_.below(pd_ != nullptr ? kSteps.size() : kSteps.size() - 1)])();
    end_region();
    for_piece([&](std::size_t page) { check(page, "after a step"); });
  }
  void check_all() const {
    for (std::size_t page = 0; page < kPages; ++page) check(page, "at the end");
  }

 private:
  uint64_t* at(std::size_t page) const { return reinterpret_cast<uint64_t*>(memory_ + page * kPage); }
  std::size_t last_word() const { return kPage / sizeof(uint64_t) - 1; }
  void stamp(std::size_t page) { at(page)[0] = at(page)[last_word()] = numbers_[page] = ++last_; }
  /// Not where other threads register the piece: then it is theirs which bytes a page has that is replaced just then.
  void check(std::size_t page, const char* when) const {
    if (pd_ == nullptr) return;
    for (std::size_t word = 0; word <= last_word(); ++word) {
      const uint64_t wanted = word == 0 || word == last_word() ? numbers_[page] : 0, is = at(page)[word];
      if (is != wanted) {
        die("%s: word %zu of page %zu %s: expected %lu, found %lu", doing_, word, page, when,
            static_cast<unsigned long>(wanted), static_cast<unsigned long>(is));
      }
    }
  }
  void for_piece(const std::function<void(std::size_t)>& call) const {
    for (std::size_t page = first_; page < first_ + pages_; ++page) call(page);
  }
  Byte* piece() const { return memory_ + first_ * kPage; }
  std::size_t bytes() const { return pages_ * kPage; }
  void must(int result) const {
    if (pd_ != nullptr && result != 0) die("%s: %s", doing_, std::strerror(errno));
  }
  void end_region() {
    if (region_ != nullptr) must_deregister(std::exchange(region_, nullptr));
  }
  void is_new() {
    for_piece([&](std::size_t page) { numbers_[page] = 0; });
    for_piece([&](std::size_t page) { check(page, "which is new"); });
    for_piece([&](std::size_t page) { stamp(page); });
  }

  void map_anew() {
    doing_ = "munmap() and mmap()";
    must(munmap(piece(), bytes()));
    map_pages(pages_, PROT_READ | PROT_WRITE, piece());
    is_new();
  }
  void replace() {
    doing_ = "mmap() in place";
    map_pages(pages_, PROT_READ | PROT_WRITE, piece());
    is_new();
  }
  void move_and_back() {
    doing_ = "mremap() and back";
    Byte* const place = map_pages(pages_);
    carry(piece(), place);
    end_region();
    carry(place, piece());  // Nothing is left at the place, or already another thread's memory.
  }
  /// Page by page: one call moves no more than one mapping, and the piece may have several.
  void carry(Byte* from, Byte* to) const {
    for (std::size_t i = 0; i < bytes(); i += kPage)
      must(mremap(from + i, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to + i) == to + i ? 0 : -1);
  }
  /// Not where other threads register the piece: zeros are promised when no region is left.
  void zero() {
    doing_ = "the end of a region and MADV_DONTNEED";
    end_region();
    if (pd_ == nullptr) return;
    must(static_cast<int>(raw_madvise(piece(), bytes(), MADV_DONTNEED)));
    is_new();
  }
  void protect() {
    doing_ = "mprotect()";
    must(mprotect(piece(), bytes(), PROT_READ));
    end_region();
    must(mprotect(piece(), bytes(), PROT_READ | PROT_WRITE));
    for_piece([&](std::size_t page) { check(page, "which was read-only"); });
    for_piece([&](std::size_t page) { stamp(page); });
  }
  /// The end of a region puts nothing where the program has nothing.
  void leave_a_hole() {
    doing_ = "munmap() and the end of a region";
    must(munmap(piece(), bytes()));
    end_region();
    if (const std::size_t found = mappings_within(piece(), bytes()); pd_ != nullptr && found != 0)
      die("%s: expected nothing where %zu pages were unmapped, found %zu mappings", doing_, pages_, found);
    map_pages(pages_, PROT_READ | PROT_WRITE, piece());
    is_new();
  }

  Byte* memory_;
  ibv_pd* pd_;
  Random random_;
  const char* doing_ = "nothing";
  std::size_t first_ = 0, pages_ = 0;
  ibv_mr* region_ = nullptr;
  uint64_t last_ = 0;
  std::array<uint64_t, kPages> numbers_{};
};

}  // namespace ordinary
