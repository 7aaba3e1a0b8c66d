#include "record/keeping.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/status_names.h"
#include "record/writer.h"

namespace uroce::record {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDraft = ".draft";

bool write_at(int fd, std::span<const std::byte> bytes, std::size_t at) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno != EINTR) return false;
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    bytes = bytes.subspan(done);
    at += done;
  }
  return true;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// A part that is overwritten meanwhile is left out.
bool copy_part(int fd, const PartPlace& place) {
  const auto seen = look_at_part(place);
  if (!seen) return true;
  PartHead head;
  head.number.store(seen->number, std::memory_order_relaxed);
  head.used.store(seen->records.size(), std::memory_order_relaxed);
  head.keyframe.store(seen->keyframe, std::memory_order_relaxed);
  if (!write_at(fd, seen->records, place.at + sizeof head)) return false;
  return !seen->stands() || write_at(fd, bytes_of(head), place.at);
}

bool copy_all(int fd, std::span<const std::byte> memory) {
  const auto places = find_parts(memory);
  if (!places || ftruncate(fd, static_cast<off_t>(memory.size())) != 0 ||
      !write_at(fd, memory.first(sizeof(FileHead)), 0)) {
    return false;
  }
  return std::ranges::all_of(*places, [fd](const PartPlace& place) { return copy_part(fd, place); });
}

struct File {
  fs::path path;
  fs::file_time_type changed;
};

// The newest first.
std::vector<File> files_of(const std::string& folder, std::string_view prefix) {
  std::vector<File> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename();
    const bool ours = name.starts_with(prefix) && (name.ends_with(".uroce") || name.ends_with(kDraft));
    if (!ours || !entry.is_regular_file(code)) continue;
    found.push_back({entry.path(), entry.last_write_time(code)});
  }
  std::ranges::sort(found, std::greater<>(), &File::changed);
  return found;
}

// Its process is gone, and did not say so. It is told once.
bool is_news(int fd) {
  FileHead head;
  if (pread(fd, static_cast<void*>(&head), sizeof head, 0) != sizeof head || head.magic != FileHead::kMagic)
    return false;
  if (head.closed.load(std::memory_order_relaxed) != 0) return false;
  head.closed.store(1, std::memory_order_relaxed);
  return write_at(fd, bytes_of(head), 0);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

std::string_view reason_of(const transport::QpEnd& end) {
  using Cause = transport::QpEnd::Cause;
  switch (end.cause) {
    case Cause::request:
    case Cause::receive: return status_name(end.status);
    case Cause::response: return "bad_request";
    case Cause::overrun: return "cq_overrun";
    case Cause::queues: return "bad_queues";
  }
  return "unknown";
}

std::string shell_word(const std::string& path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,";
  if (path.find_first_not_of(kPlain) == std::string::npos) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The file has its name when it is whole.
Result<void> copy_recording(std::span<const std::byte> memory, const std::string& path) {
  const std::string draft = path + std::string(kDraft);
  const Descriptor file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const bool copied = file.get() >= 0 && flock(file.get(), LOCK_EX | LOCK_NB) == 0 && copy_all(file.get(), memory) &&
                      rename(draft.c_str(), path.c_str()) == 0;
  if (copied) return {};
  const int code = errno;
  if (file.get() >= 0) unlink(draft.c_str());
  return fail(code, fmt::format("cannot keep a recording in {}: {}; give another folder", path, std::strerror(code)));
}

std::vector<std::string> tidy_up(const std::string& folder, std::string_view device, uint32_t engine) {
  std::vector<std::string> news;
  std::size_t ended = 0;
  std::size_t dead = 0;
  for (const File& file : files_of(folder, fmt::format("{}.{}.", device, engine))) {
    const std::string name = file.path.filename();
    const bool draft = name.ends_with(kDraft);
    if (!draft && name.find(".qp-") != std::string::npos) {
      if (++ended > kMostFiles) unlink(file.path.c_str());
      continue;
    }
    const Descriptor opened(open(file.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    // A living process holds the lock.
    if (opened.get() < 0 || flock(opened.get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (draft || ++dead > kMostFiles) {
      unlink(file.path.c_str());
    } else if (is_news(opened.get())) {
      news.push_back(file.path);
    }
  }
  return news;
}

}  // namespace uroce::record
