#include "memory.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace interop {

namespace {

constexpr std::size_t kPage = 4096;

class Heap final : public Memory {
 public:
  explicit Heap(std::size_t length) : bytes_(length) {}
  std::span<std::uint8_t> bytes() override { return bytes_; }
  ibv_mr* register_in(ibv_pd* pd, int access) override { return ibv_reg_mr(pd, bytes_.data(), bytes_.size(), access); }

 private:
  std::vector<std::uint8_t> bytes_;
};

class Descriptor {
 public:
  Descriptor(int fd, const char* call) : fd_(fd) {
    if (fd < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A dma-buf, and its bytes from the second page on.
class Dmabuf : public Memory {
 public:
  explicit Dmabuf(std::size_t length) : length_(length), size_(kPage + (length + kPage - 1) / kPage * kPage) {}
  ~Dmabuf() override {
    if (base_ != nullptr) munmap(base_, mapped_);
  }
  Dmabuf(const Dmabuf&) = delete;
  Dmabuf& operator=(const Dmabuf&) = delete;

  std::span<std::uint8_t> bytes() override { return {base_ + (mapped_ - size_) + kPage, length_}; }
  ibv_mr* register_in(ibv_pd* pd, int access) override {
    return ibv_reg_dmabuf_mr(pd, kPage, length_, reinterpret_cast<std::uintptr_t>(bytes().data()), buffer_->get(),
                             access);
  }

 protected:
  std::size_t size() const { return size_; }
  void set_buffer(int fd, const char* call) { buffer_ = std::make_unique<Descriptor>(fd, call); }
  /// Bytes are seen through the end of `fd`.
  void map(int fd, std::size_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) throw std::runtime_error(std::string("mmap: ") + std::strerror(errno));
    base_ = static_cast<std::uint8_t*>(at);
    mapped_ = bytes;
  }
  int buffer() const { return buffer_->get(); }

 private:
  std::size_t length_;
  std::size_t size_;
  std::unique_ptr<Descriptor> buffer_;
  std::uint8_t* base_ = nullptr;
  std::size_t mapped_ = 0;
};

/// A buffer of the memfd's pages from the second on.
class Udmabuf final : public Dmabuf {
 public:
  explicit Udmabuf(std::size_t length)
      : Dmabuf(length), memfd_(memfd_create("udmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create") {
    const Descriptor device(open("/dev/udmabuf", O_RDWR | O_CLOEXEC), "/dev/udmabuf");
    const int sized = ftruncate(memfd_.get(), static_cast<off_t>(kPage + size()));
    if (sized != 0 || fcntl(memfd_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
      throw std::runtime_error(std::string("a memfd: ") + std::strerror(errno));
    }
    const udmabuf_create wanted{
        .memfd = static_cast<__u32>(memfd_.get()), .flags = UDMABUF_FLAGS_CLOEXEC, .offset = kPage, .size = size()};
    set_buffer(ioctl(device.get(), UDMABUF_CREATE, &wanted), "UDMABUF_CREATE");
    map(memfd_.get(), kPage + size());
  }

 private:
  Descriptor memfd_;
};

/// A buffer of the kernel's own pages.
class SystemHeap final : public Dmabuf {
 public:
  explicit SystemHeap(std::size_t length) : Dmabuf(length) {
    const Descriptor device(open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC), "/dev/dma_heap/system");
    dma_heap_allocation_data wanted{.len = size(), .fd = 0, .fd_flags = O_RDWR | O_CLOEXEC, .heap_flags = 0};
    const int allocated = ioctl(device.get(), DMA_HEAP_IOCTL_ALLOC, &wanted);
    set_buffer(allocated == 0 ? static_cast<int>(wanted.fd) : -1, "DMA_HEAP_IOCTL_ALLOC");
    map(buffer(), size());
  }
};

}  // namespace

std::unique_ptr<Memory> make_memory(const std::string& kind, std::size_t length) {
  if (kind == "heap") return std::make_unique<Heap>(length);
  if (kind == "udmabuf") return std::make_unique<Udmabuf>(length);
  if (kind == "dma_heap") return std::make_unique<SystemHeap>(length);
  throw std::runtime_error("there is no memory of kind " + kind);
}

}  // namespace interop
