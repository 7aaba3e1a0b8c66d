#include "uroce/pcapng.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::cli {

namespace {

constexpr uint32_t kSection = 0x0a0d0d0a;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kStatistics = 5;
constexpr uint32_t kPacket = 6;
constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint16_t kEthernet = 1;

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void put_padded(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.resize((out.size() + 3) & ~std::size_t{3});
}

void put_option(std::vector<std::byte>& out, uint16_t code, std::span<const std::byte> value) {
  put(out, code);
  put(out, static_cast<uint16_t>(value.size()));
  put_padded(out, value);
}

template <class T>
void put_option(std::vector<std::byte>& out, uint16_t code, const T& value) {
  put_option(out, code, std::as_bytes(std::span(&value, 1)));
}

void put_time(std::vector<std::byte>& out, uint64_t time_ns) {
  put(out, static_cast<uint32_t>(time_ns >> 32));
  put(out, static_cast<uint32_t>(time_ns));
}

}  // namespace

Result<Pcapng> Pcapng::create(const std::string& path, std::string_view device, std::string_view program) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    const int code = errno;
    return fail(code, fmt::format("cannot write {}: {}", path, std::strerror(code)));
  }
  Pcapng out(file, path);
  std::vector<std::byte> body;
  put(body, kByteOrder);
  put(body, uint16_t{1});  // version 1.0
  put(body, uint16_t{0});
  put(body, int64_t{-1});  // of unknown length
  put_option(body, 4, std::as_bytes(std::span(program)));
  put(body, uint32_t{0});
  out.block(kSection, body);
  body.clear();
  put(body, kEthernet);
  put(body, uint16_t{0});
  put(body, uint32_t{0});  // frames are whole
  put_option(body, 2, std::as_bytes(std::span(device)));
  put_option(body, 9, uint8_t{9});  // times in 10^-9 s
  put(body, uint32_t{0});
  out.block(kInterface, body);
  return out;
}

Pcapng::Pcapng(Pcapng&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      error_(other.error_),
      scratch_(std::move(other.scratch_)) {}

Pcapng::~Pcapng() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void Pcapng::block(uint32_t type, std::span<const std::byte> body) {
  const auto length = static_cast<uint32_t>(body.size() + 12);
  const uint32_t head[2] = {type, length};
  write(std::as_bytes(std::span(head)));
  write(body);
  write(std::as_bytes(std::span(&length, 1)));
}

// The first error counts: after it the file has a gap.
void Pcapng::write(std::span<const std::byte> bytes) {
  if (error_ != 0) return;
  if (std::fwrite(bytes.data(), bytes.size(), 1, file_) != 1) error_ = errno != 0 ? errno : EIO;
}

void Pcapng::frame(uint64_t time_ns, bool outbound, std::span<const std::byte> bytes, std::string_view comment) {
  scratch_.clear();
  put(scratch_, uint32_t{0});  // the only interface
  put_time(scratch_, time_ns);
  put(scratch_, static_cast<uint32_t>(bytes.size()));
  put(scratch_, static_cast<uint32_t>(bytes.size()));
  put_padded(scratch_, bytes);
  if (!comment.empty()) put_option(scratch_, 1, std::as_bytes(std::span(comment)));
  put_option(scratch_, 2, uint32_t{outbound ? 2u : 1u});
  put(scratch_, uint32_t{0});
  block(kPacket, scratch_);
}

Result<void> Pcapng::end(uint64_t seen, uint64_t dropped) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::vector<std::byte> body;
  put(body, uint32_t{0});
  put_time(body, static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
  put_option(body, 4, seen);
  put_option(body, 5, dropped);
  put(body, uint32_t{0});
  block(kStatistics, body);
  flush();
  return state();
}

void Pcapng::flush() {
  if (std::fflush(file_) != 0 && error_ == 0) error_ = errno != 0 ? errno : EIO;
}

Result<void> Pcapng::state() const {
  if (error_ == 0) return {};
  return fail(error_, fmt::format("cannot write {} to its end: {}{}", path_, std::strerror(error_),
                                  error_ == ENOSPC ? "; free space there, or capture to another disk" : ""));
}

}  // namespace uroce::cli
