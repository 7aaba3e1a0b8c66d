// Memory of a dma-buf for a region of this process.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <sys/mman.h>

#include <uroce/error.h>

namespace uroce::client {

/// Part of a dma-buf, mapped in this process while a region uses it.
class MappedDmabuf {
 public:
  static Result<std::shared_ptr<MappedDmabuf>> make(int fd, uint64_t offset, std::size_t length, bool writable) {
    const uint64_t in_page = offset % 4096;
    auto mapped = std::make_shared<MappedDmabuf>();
    const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void* const at = mmap(nullptr, in_page + length, protection, MAP_SHARED, fd, static_cast<off_t>(offset - in_page));
    if (at == MAP_FAILED) {
      const int code = errno;
      return fail(code == EACCES || code == ENOMEM ? code : EOPNOTSUPP,
                  std::string("cannot register a dma-buf: mmap: ") + std::strerror(code));
    }
    mapped->base_ = static_cast<std::byte*>(at);
    mapped->data_ = mapped->base_ + in_page;
    mapped->bytes_ = in_page + length;
    return mapped;
  }
  MappedDmabuf() = default;
  ~MappedDmabuf() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  MappedDmabuf(const MappedDmabuf&) = delete;
  MappedDmabuf& operator=(const MappedDmabuf&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace uroce::client
