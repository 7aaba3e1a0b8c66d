#include "service/dmabuf.h"

#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "message/connection.h"

namespace uroce::service {
namespace {

TEST(Dmabuf, ItsExporterStandsInFdinfo) {
  EXPECT_EQ(exporter_in("pos:\t0\nflags:\t02\nsize:\t8192\ncount:\t2\nexp_name:\tudmabuf\nname:\tmine\n"), "udmabuf");
  EXPECT_EQ(exporter_in("exp_name:\tsystem"), "system");
  EXPECT_EQ(exporter_in("pos:\t0\nflags:\t02\n"), "");
  EXPECT_EQ(exporter_in(""), "");
}

// DMA_BUF_SET_NAME takes any 31 bytes.
TEST(Dmabuf, ANameIsNoExporter) {
  EXPECT_EQ(exporter_in("size:\t1\nexp_name:\tamdgpu\nname:\tx\nexp_name:\tudmabuf\n"), "amdgpu");
  EXPECT_EQ(exporter_in("size:\t1\nname:\texp_name:\tudmabuf\n"), "");
}

TEST(Dmabuf, OnlyUdmabufIsSteady) {
  EXPECT_TRUE(is_steady_exporter("udmabuf"));
  for (const char* other : {"", "system", "amdgpu", "udmabuf2", "Udmabuf"}) EXPECT_FALSE(is_steady_exporter(other));
}

TEST(Dmabuf, ADescriptorOfAnotherKindHasNoExporter) {
  const message::Fd fd(memfd_create("test", MFD_CLOEXEC));
  const auto buffer = describe_dmabuf(fd.get());
  ASSERT_TRUE(buffer) << buffer.error().text;
  EXPECT_EQ(buffer->exporter, "");
  const auto closed = describe_dmabuf(-1);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, EBADF);
}

}  // namespace
}  // namespace uroce::service
