// Marks what liburoce.so exports. Everything else in it stays hidden.
#pragma once

#if defined(__GNUC__)
#define UROCE_API [[gnu::visibility("default")]]
#else
#define UROCE_API
#endif
