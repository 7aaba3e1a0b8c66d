// A program with many mappings of its own registers some of their pages and ends the regions.
//
//   many_mappings COUNT
//
// COUNT pages are a mapping each, because every second one is read-only.
#include <chrono>

#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr std::size_t kTogether = 100;

void expect_equal(const char* what, std::size_t is, std::size_t wanted) {
  if (is != wanted) die("%s: expected %zu, found %zu", what, wanted, is);
}

class Pages {
 public:
  explicit Pages(std::size_t count) : count_(count), memory_(map_pages(count)) {
    for (std::size_t page = 0; page < count; ++page) {
      std::memset(at(page), value(page), kPage);
      if (page % 2 == 1 && mprotect(at(page), kPage, PROT_READ) != 0) die("mprotect: %s", std::strerror(errno));
    }
  }
  Byte* at(std::size_t page) const { return memory_ + page * kPage; }
  void check(const char* when) const {
    for (std::size_t page = 0; page < count_; ++page) {
      if (at(page)[0] != value(page) || at(page)[kPage - 1] != value(page))
        die("page %zu %s: expected %d, found %d", page, when, value(page), at(page)[0]);
    }
    expect_equal(when, mappings_within(memory_, count_ * kPage), count_);
    expect_equal("bytes that are not private anonymous memory", not_ordinary(memory_, count_ * kPage), 0);
  }

 private:
  static Byte value(std::size_t page) { return static_cast<Byte>(page % 251 + 1); }

  std::size_t count_;
  Byte* memory_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) die("write: many_mappings COUNT");
  ibv_pd* pd = open_pd();
  register_and_deregister(pd, map_pages(1), kPage);
  const Pages pages(std::strtoul(argv[1], nullptr, 10));
  const std::size_t before = all_mappings();
  std::printf("%zu mappings\n", before);

  const auto began = std::chrono::steady_clock::now();
  register_and_deregister(pd, pages.at(10000), kPage);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf("a page: %.2f ms\n", took.count());
  pages.check("mappings of the pages after a region of one page");

  std::array<ibv_mr*, kTogether> regions{};
  for (std::size_t i = 0; i < kTogether; ++i) regions[i] = must_register(pd, pages.at(20000 + i * 4), kPage);
  for (ibv_mr* region : regions) must_deregister(region);
  pages.check("mappings of the pages after 100 regions");

  must_deregister(must_register(pd, pages.at(30000), kTogether * kPage, IBV_ACCESS_REMOTE_READ));
  pages.check("mappings of the pages after a region of 100 mappings");
  expect_equal("mappings of the process", all_mappings(), before);
  std::printf("all %zu are as they were\n", before);
  return 0;
}
