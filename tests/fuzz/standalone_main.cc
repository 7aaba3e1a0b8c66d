// Stands in for libFuzzer where the compiler has none: replays a corpus, then a bounded number of mutations of it,
// the same ones each time.
//
// Usage: TARGET [-runs=N] [-seed=N] FILE|DIRECTORY...
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "tests/support/pcap_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

namespace {

using uroce::Random;
using uroce::test::Bytes;

constexpr std::size_t kMaxInput = 9000;

/// Runs the target on a block of exactly the input's size, so that AddressSanitizer sees any read beyond it.
void run(const Bytes& input) {
  const auto block = std::make_unique<uint8_t[]>(input.size());
  if (!input.empty()) std::memcpy(block.get(), input.data(), input.size());
  LLVMFuzzerTestOneInput(block.get(), input.size());
}

Bytes mutate(Bytes input, const std::vector<Bytes>& corpus, Random& random) {
  for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    const auto at = [&] { return static_cast<std::ptrdiff_t>(random.below(input.size() + 1)); };
    const std::ptrdiff_t a = at(), b = at();
    const auto [low, high] = std::minmax(a, b);
    switch (random.below(6)) {
      case 0: input.insert(input.begin() + a, random.below(9), static_cast<std::byte>(random.next())); break;
      case 1: input.erase(input.begin() + low, input.begin() + std::min(high, low + 8)); break;
      case 2: input.resize(static_cast<std::size_t>(a)); break;
      case 3: {
        const Bytes& other = corpus[random.below(corpus.size())];
        const std::size_t n = std::min<std::size_t>(other.size(), static_cast<std::size_t>(high));
        std::copy_n(other.begin(), n, input.begin());
        break;
      }
      default:
        if (!input.empty()) input[random.below(input.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
  }
  input.resize(std::min(input.size(), kMaxInput));
  return input;
}

void load(const std::filesystem::path& path, std::vector<Bytes>& corpus) {
  if (!std::filesystem::is_directory(path)) {
    corpus.push_back(uroce::test::read_file(path));
    return;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // the order of a directory is not the same everywhere
  for (const auto& file : files) load(file, corpus);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 20000, seed = 1;
  std::vector<Bytes> corpus = {Bytes()};
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("-runs=")) {
      runs = std::strtoull(argv[i] + 6, nullptr, 10);
    } else if (arg.starts_with("-seed=")) {
      seed = std::strtoull(argv[i] + 6, nullptr, 10);
    } else {
      load(arg, corpus);
    }
  }
  for (const Bytes& input : corpus) run(input);
  Random random(seed);
  for (uint64_t i = 0; i < runs; ++i) run(mutate(corpus[random.below(corpus.size())], corpus, random));
  std::printf("%zu inputs and %llu mutations, seed %llu\n", corpus.size(), static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  return 0;
}
