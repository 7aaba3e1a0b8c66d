#include "record/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace uroce::record {
namespace {

std::unexpected<Error> failed(std::string_view what, const std::string& path) {
  const int code = errno;
  return fail(code, fmt::format("cannot {} {}: {}", what, path, std::strerror(code)));
}

constexpr const char* kNothing = "nothing is recorded in it, because its engine never began";

// A head, and no record behind it.
bool has_nothing(std::span<const std::byte> memory) {
  const auto places = find_parts(memory);
  if (!places || places->size() != 1) return false;
  const auto first = look_at_part(places->front());
  return first && first->number == 1 && first->records.empty();
}

}  // namespace

std::string file_name(std::string_view device, uint32_t engine, uint32_t pid) {
  return fmt::format("{}.{}.{}.uroce", device, engine, pid);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<std::unique_ptr<FileRecorder>> FileRecorder::make(const std::string& folder, std::string_view device,
                                                         uint32_t engine, std::size_t bytes) {
  const auto pid = static_cast<uint32_t>(getpid());
  const std::string path = fmt::format("{}/{}", folder, file_name(device, engine, pid));
  Descriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return failed("record into", path);
  // A process of this number may have left one, and its zeros are needed.
  if (ftruncate(fd.get(), 0) != 0) return failed("record into", path);
  // Memory that is missing must show now, not as a signal while the engine writes.
  if (const int code = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); code != 0) {
    unlink(path.c_str());
    return fail(
        code, fmt::format("cannot record into {}: no room for {} bytes ({}); give another folder, or fewer bytes", path,
                          bytes, std::strerror(code)));
  }
  // The data path meets no page for the first time.
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (memory == MAP_FAILED) return failed("map", path);
  const std::span<std::byte> mapped(static_cast<std::byte*>(memory), bytes);
  FileHead& head = lay_out(mapped);
  head.pid = pid;
  head.engine = engine;
  device.copy(head.device, sizeof head.device - 1);
  std::unique_ptr<FileRecorder> made(new FileRecorder(folder, device, std::move(fd), Mapping(mapped), path));
  made->dead_ = tidy_up(folder, device, engine);
  return made;
}

FileRecorder::FileRecorder(std::string folder, std::string_view device, Descriptor file, Mapping mapping,
                           std::string path)
    : folder_(std::move(folder)),
      device_(device),
      file_(std::move(file)),
      mapping_(std::move(mapping)),
      path_(std::move(path)),
      recorder_(mapping_.bytes()) {
  recorder_.tell_ends([this](const transport::QpEnd& end, uint32_t others) { on_end(end, others); });
  recorder_.tell_full([this] {
    if (wake_) wake_();
  });
}

FileRecorder::~FileRecorder() { head().closed.store(1, std::memory_order_relaxed); }

void FileRecorder::on_end(const transport::QpEnd& end, uint32_t others) {
  if (told_.load(std::memory_order_acquire)) return;
  end_ = end;
  others_ = others;
  told_.store(true, std::memory_order_release);
  if (wake_) wake_();
}

std::optional<std::string> FileRecorder::look(Nanos now) {
  if (head().full.load(std::memory_order_relaxed) != 0 && !std::exchange(told_full_, true)) {
    return fmt::format(
        "engine {} of {} is recorded no more: its state takes over half of the {} MiB of {}; raise "
        "engines.record_mib",
        head().engine, device_, mapping_.bytes().size() >> 20, shell_word(path_));
  }
  if (!told_.load(std::memory_order_acquire)) return std::nullopt;
  const bool keeps = !kept_at_ || now - *kept_at_ >= kKeepInterval;
  std::optional<std::string> said;
  if (keeps) {
    kept_at_ = now;
    const std::string path = fmt::format("{}/{}.{}.{}.{}.qp-{:#x}-{}.uroce", folder_, device_, head().engine,
                                         head().pid, ++kept_, end_.qpn, reason_of(end_));
    const auto copied = copy_recording(mapping_.bytes(), path);
    if (copied) tidy_up(folder_, device_, head().engine);
    said = !copied ? copied.error().text
                   : fmt::format(
                         "the recording of how QP {:#x} of {}{} ended is kept; to replay it: uroce replay {} --qp "
                         "{:#x}",
                         end_.qpn, device_, others_ != 0 ? fmt::format(" and {} more", others_) : "", shell_word(path),
                         end_.qpn);
  }
  told_.store(false, std::memory_order_release);
  recorder_.unpin();
  return said;
}

Result<Recorded> read_file(const std::string& path) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts{};
  if (fd.get() < 0 || fstat(fd.get(), &facts) != 0) return failed("read", path);
  const auto size = static_cast<std::size_t>(facts.st_size);
  const auto refuse = [&path](const std::string& why) {
    return fail(EINVAL, fmt::format("{} is no recording that this program can read: {}", path, why));
  };
  if (size < sizeof(FileHead)) return refuse(fmt::format("it has {} bytes", size));
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return failed("map", path);
  const Mapping mapping({static_cast<std::byte*>(memory), size});
  const auto& head = *static_cast<const FileHead*>(memory);
  if (head.magic == 0) return refuse(kNothing);
  if (head.magic != FileHead::kMagic) return refuse("its first bytes are others");
  if (head.format != kFormat || head.build != build_of()) {
    return refuse("another version has written it; replay it with the uroce of the uroced that recorded it");
  }
  auto all = collect(mapping.bytes());
  if (!all) return refuse(fmt::format("it was cut: its head tells of more than its {} bytes", size));
  if (all->keyframes.empty()) {
    return refuse(has_nothing(mapping.bytes()) ? kNothing : "no state from which to begin is whole in it");
  }
  return Recorded{.device = std::string(head.device, strnlen(head.device, sizeof head.device)),
                  .engine = head.engine,
                  .pid = head.pid,
                  .full = head.full.load(std::memory_order_relaxed) != 0,
                  .records = std::move(all->records),
                  .keyframes = std::move(all->keyframes)};
}

}  // namespace uroce::record
