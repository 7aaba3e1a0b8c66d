#include "client/queue_chunks.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>

namespace uroce::client {

QueueChunks::~QueueChunks() {
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
