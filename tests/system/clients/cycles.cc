// Registers pages of a large mapping and ends the regions, over and over, and counts the mappings of the process.
//
//   cycles CYCLES SEED pages|pieces
//
// `pages` are separate: one of two, so that no two regions touch. `pieces` are random runs of 1 to 4 pages, and up to
// 64 regions are there at a time, which overlap. Each page has a number that changes before and in each region.
#include <chrono>
#include <string_view>

#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr std::size_t kPages = 65536, kHeld = 64, kTogether = 1000;
constexpr std::size_t kMappingsPerRegion = 4, kMappingsMore = 16, kBytesMore = 16 << 20;

struct Piece {
  ibv_mr* mr = nullptr;
  std::size_t first = 0, pages = 0;
};

class Area {
 public:
  Area() : memory_(map_pages(kPages)), numbers_(reinterpret_cast<uint64_t*>(map_pages(kPages * 8 / kPage))) {}

  Piece enter(std::size_t first, std::size_t pages) {
    change(first, pages);
    Piece piece{must_register(pd_, memory_ + first * kPage, pages * kPage), first, pages};
    check(first, pages, "in a new region");
    change(first, pages);
    return piece;
  }
  void leave(Piece& piece) {
    if (piece.mr == nullptr) return;
    check(piece.first, piece.pages, "before the end of a region");
    must_deregister(piece.mr);
    piece.mr = nullptr;
    check(piece.first, piece.pages, "after the end of a region");
  }
  void check(std::size_t first, std::size_t pages, const char* when) const {
    for (std::size_t page = first; page < first + pages; ++page) {
      for (const std::size_t slot : {std::size_t{0}, kPage / 8 - 1}) {
        if (const uint64_t is = at(page)[slot]; is != numbers_[page]) {
          die("page %zu %s: expected the number %lu, found %lu", page, when, static_cast<unsigned long>(numbers_[page]),
              static_cast<unsigned long>(is));
        }
      }
    }
  }
  std::size_t mappings() const { return mappings_within(memory_, kPages * kPage); }
  std::size_t not_private() const { return not_ordinary(memory_, kPages * kPage); }

 private:
  uint64_t* at(std::size_t page) const { return reinterpret_cast<uint64_t*>(memory_ + page * kPage); }
  void change(std::size_t first, std::size_t pages) {
    for (std::size_t page = first; page < first + pages; ++page)
      at(page)[0] = at(page)[kPage / 8 - 1] = numbers_[page] = ++last_;
  }

  ibv_pd* pd_ = open_pd();
  Byte* memory_;
  uint64_t* numbers_;
  uint64_t last_ = 0;
};

void expect_at_most(const char* what, std::size_t is, std::size_t most) {
  if (is > most) die("%s: expected at most %zu, found %zu", what, most, is);
}

void separate_pages(Area& area, std::size_t cycles, std::size_t before) {
  for (std::size_t i = 0; i < cycles; ++i) {
    const std::size_t round = i / (kPages / 2);
    Piece piece = area.enter(i % (kPages / 2) * 2 + round % 2, 1);
    area.leave(piece);
    if (i % 1024 == 1023) expect_at_most("mappings after 1,024 cycles more", all_mappings(), before + kMappingsMore);
  }
}

void random_pieces(Area& area, std::size_t cycles, Random random, std::size_t before) {
  static std::array<Piece, kHeld> held;
  for (std::size_t i = 0; i < cycles; ++i) {
    Piece& piece = held[random.below(kHeld)];
    area.leave(piece);
    const std::size_t pages = 1 + random.below(4);
    piece = area.enter(random.below(kPages - pages), pages);
    if (i % 4096 == 4095) {
      expect_at_most("mappings while 64 regions are there", all_mappings(),
                     before + kHeld * kMappingsPerRegion + kMappingsMore);
    }
  }
  for (Piece& piece : held) area.leave(piece);
}

/// As many regions as a busy server has.
void many_at_once(Area& area, std::size_t before) {
  static std::array<Piece, kTogether> held;
  for (std::size_t i = 0; i < kTogether; ++i) held[i] = area.enter(i * 3, 1);
  expect_at_most("mappings while 1,000 regions are there", all_mappings(),
                 before + kTogether * kMappingsPerRegion + kMappingsMore);
  for (Piece& piece : held) area.leave(piece);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("write: cycles CYCLES SEED pages|pieces");
  const std::size_t cycles = std::strtoul(argv[1], nullptr, 10);
  Area area;
  Byte* warm = map_pages(3);
  register_and_deregister(open_pd(), warm + kPage, kPage);
  const std::size_t before = all_mappings(), within = area.mappings(), bytes = bytes_in_nameless_files();
  const auto began = std::chrono::steady_clock::now();
  if (std::string_view(argv[3]) == "pages")
    separate_pages(area, cycles, before);
  else
    random_pieces(area, cycles, Random(std::strtoul(argv[2], nullptr, 10)), before);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  std::printf("%zu cycles, %.0f us each; mappings %zu before, %zu after\n", cycles,
              took.count() / static_cast<double>(cycles), before, all_mappings());
  many_at_once(area, before);
  area.check(0, kPages, "at the end");
  expect_at_most("mappings of the area after all regions", area.mappings(), within);
  expect_at_most("mappings of the process after all regions", all_mappings(), before);
  expect_at_most("bytes of the area that are not private anonymous memory", area.not_private(), 0);
  expect_at_most("bytes in nameless files after all regions", bytes_in_nameless_files(), bytes + kBytesMore);
  return 0;
}
