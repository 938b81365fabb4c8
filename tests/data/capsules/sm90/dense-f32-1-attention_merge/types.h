// Element types, by the names that printed text uses.
#pragma once

using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long;
using u64 = unsigned long;
using f32 = float;
using f64 = double;
