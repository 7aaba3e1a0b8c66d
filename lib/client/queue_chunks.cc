#include "client/queue_chunks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace uroce::client {
namespace {

std::mutex mutex;
std::vector<QueueChunks*>& all() {
  static auto* const kAll = new std::vector<QueueChunks*>;  // never destroyed: a child may ask while it ends
  return *kAll;
}

// The kernel ends the process when the access is tried again.
void explain_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  constexpr char kText[] =
      "uroce: a child of fork() has no queues of its parent; open the device and make queues in the child\n";
  if (QueueChunks::held_by_any(info->si_addr)) (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
  std::signal(SIGSEGV, SIG_DFL);
}

void in_child() {
  mutex.unlock();
  struct sigaction now{};
  if (std::getenv("UROCE_VERBOSE") == nullptr || sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_handler != SIG_DFL)
    return;
  struct sigaction explaining{};
  explaining.sa_sigaction = explain_fault;
  explaining.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &explaining, nullptr);
}

}  // namespace

QueueChunks::QueueChunks() {
  static const int kOnce = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, in_child);
  (void)kOnce;
  const std::scoped_lock lock(mutex);
  all().push_back(this);
}

bool QueueChunks::held_by_any(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  return std::ranges::any_of(all(), [at](const QueueChunks* chunks) {
    return std::ranges::any_of(chunks->chunks_,
                               [at](const Mapped& one) { return at >= one.data && at < one.data + one.bytes; });
  });
}

QueueChunks::~QueueChunks() {
  {
    const std::scoped_lock lock(mutex);
    std::erase(all(), this);
  }
  for (const Mapped& chunk : chunks_) munmap(chunk.data, chunk.bytes);
}

Result<void> QueueChunks::map(const message::Chunk& chunk, const message::Fd& fd) {
  if (chunk.index != chunks_.size()) return fail(EPROTO, "chunks of queue memory arrived out of order");
  void* data = mmap(nullptr, chunk.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return fail(ENOMEM, std::string("cannot map its queue memory: ") + std::strerror(errno));
  // A child of fork() must not post to its parent's queues; libibverbs keeps queues out of children, too.
  madvise(data, chunk.bytes, MADV_DONTFORK);
  chunks_.push_back({static_cast<std::byte*>(data), chunk.bytes});
  return {};
}

std::byte* QueueChunks::at(const message::Place& place) const {
  const bool there = place.chunk < chunks_.size() && place.offset <= chunks_[place.chunk].bytes &&
                     place.bytes <= chunks_[place.chunk].bytes - place.offset && place.offset % 64 == 0;
  return there ? chunks_[place.chunk].data + place.offset : nullptr;
}

}  // namespace uroce::client
