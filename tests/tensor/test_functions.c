/* Vector functions against points that MPFR 4.2 or (gamma functions) mpmath computed with 200 bits or more, what IEEE 754 says of special
 * values, and each other on every instruction set. */
#include "support/support.h"
#include "base/rng.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/source_kernels.h"
#include "tensor/elementwise.h"

#include <math.h>

typedef struct point {
    gd_op_id op;
    double x, y;
    double of_f64, of_f32; /* at x and y, and at what f32 makes of them; NAN: f32 has no such numbers */
} point;

static const point points[] = {
    {GD_OP_pow, 0x1.90a933bfccd3cp+3, 0x1.fc6f04af6bc00p+3, 0x1.e8ea8e29e0afcp+57, 0x1.e8ea7890c03f8p+57},
    {GD_OP_pow, 0x1.f0cc38fe592e9p+3, -0x1.5fbc1ba4d4ed6p+3, 0x1.6cd77d8ca68e4p-44, 0x1.6cd77a6f31594p-44},
    {GD_OP_pow, 0x1.8273cac1c3b3dp+2, 0x1.de25fe346ce28p+3, 0x1.b229f3276e899p+38, 0x1.b229e173beca0p+38},
    {GD_OP_pow, 0x1.3d8717dc0dfb8p-3, 0x1.9b2c20cd7fba0p+3, 0x1.5c92797126648p-35, 0x1.5c928bb8d059fp-35},
    {GD_OP_pow, 0x1.fe72f9bedf1cap+3, -0x1.485898e33c970p+0, 0x1.d592b64df8578p-6, 0x1.d592ba8383616p-6},
    {GD_OP_pow, 0x1.861c9f17bf432p+2, -0x1.1b9d7ed44abf7p+3, 0x1.d9a26ba4b4b7cp-24, 0x1.d9a2781122daap-24},
    {GD_OP_pow, 0x1.489e13cb00384p+2, -0x1.1935959830d90p+1, 0x1.c24301733e9ccp-6, 0x1.c242fe7e4a647p-6},
    {GD_OP_pow, 0x1.43b41fb019400p+3, 0x1.11e80c9fa69e8p+1, 0x1.1ae3f683a73b0p+7, 0x1.1ae3f3e891879p+7},
    {GD_OP_pow, 0x1.3e904e04cf6a6p+4, 0x1.769b752b09cf2p+3, 0x1.6ebaea8e21ad7p+50, 0x1.6ebb06d1bdb5ap+50},
    {GD_OP_pow, 0x1.8ecc99afd5747p+3, 0x1.38ef3b085a41ap+4, 0x1.22a8cbf57f71cp+71, 0x1.22a8fcc188ccfp+71},
    {GD_OP_pow, 0x1.161b2c60d0153p+2, -0x1.b2edb882c649ep+3, 0x1.249ede9a7c621p-29, 0x1.249eeadfd8c17p-29},
    {GD_OP_pow, 0x1.88a5314a71cbap+3, -0x1.23e08a9a36956p+4, 0x1.02dbc87e87a01p-66, 0x1.02dbd866568b2p-66},
    {GD_OP_pow, 0x1.c41b3cfb685bcp-108, 0x1.aae46acfdaba0p-3, 0x1.944242f2675b5p-23, 0x1.94424eab9f7b7p-23},
    {GD_OP_pow, 0x1.25ec5f297bed5p-8, 0x1.75c8466fd45e2p+2, 0x1.5b926b99f2682p-46, 0x1.5b927e374daf2p-46},
    {GD_OP_pow, 0x1.c6ea29b7dd180p+29, 0x1.94c7fa516fc00p-3, 0x1.dc4ad1e4e5d24p+5, 0x1.dc4ad06c3bc85p+5},
    {GD_OP_pow, 0x1.3677499b8bb71p-1, -0x1.c47408d458288p+1, 0x1.7716cd4e0382fp+2, 0x1.7716ca69bcd41p+2},
    {GD_OP_pow, 0x1.3caaede0d4043p-113, -0x1.139b90d9a8ea7p+2, 0x1.3ad892ba3e19ap+485,
     0x1.3ad74b7c60faep+485},
    {GD_OP_pow, 0x1.4120da91127a7p+44, -0x1.0c41a1cfe9de6p+2, 0x1.26b2b3faf5647p-186, 0x1.26b29b95c6c20p-186},
    {GD_OP_pow, 0x1.d8bdf241f7e84p-31, -0x1.bca77459c9d7ep+2, 0x1.2c80dbf90802dp+209, 0x1.2c80babc0a533p+209},
    {GD_OP_pow, 0x1.2316bdca1efecp+76, -0x1.359a55c72d55ap+2, 0x1.5dbc17f2348aap-369, 0x1.5dbbd6ab8601ap-369},
    {GD_OP_pow, 0x1.e833c15569dc8p-1, 0x1.564c873d2c67ep+9, 0x1.fd2c78ecdac1ep-48, 0x1.fd2e2fd2732bdp-48},
    {GD_OP_pow, 0x1.00805481a3229p+0, 0x1.386f6ab0f5c6cp+9, 0x1.b29a307bc0509p+1, 0x1.b298172b06420p+1},
    {GD_OP_pow, 0x1.07274d048aa55p+0, 0x1.b3300d738bce0p+8, 0x1.3bed29063db32p+17, 0x1.3bef2effe304dp+17},
    {GD_OP_pow, 0x1.d62b4d6963b01p-1, 0x1.283c4aa3c04a8p+6, 0x1.db8ac683cc478p-10, 0x1.db8af91097ab2p-10},
    {GD_OP_pow, 0x1.0065df4c25363p+0, 0x1.4e3497a6dfa70p+9, 0x1.697d5055c535bp+1, 0x1.697fe6cf1a5fdp+1},
    {GD_OP_pow, 0x1.f1cb1edc463fap-1, 0x1.61766fb3dbaf8p+7, 0x1.c59c4fac00510p-8, 0x1.c59bc33404dcfp-8},
    {GD_OP_pow, -0x1.b333333333333p+0, 0x1.8000000000000p+1, -0x1.3a6e978d4fdf3p+2, -0x1.3a6e9949374c9p+2},
    {GD_OP_pow, -0x1.4000000000000p+1, -0x1.0000000000000p+2, 0x1.a36e2eb1c432dp-6, 0x1.a36e2eb1c432dp-6},
    {GD_OP_pow, 0x1.0000000000000p+1, -0x1.0400000000000p+10, 0x0.0000400000000p-1022,
     0x0.0000400000000p-1022},
    {GD_OP_pow, 0x1.8000000000000p+0, -0x1.b580000000000p+10, 0x0.4fa6b366848b3p-1022,
     0x0.4fa6b366848b3p-1022},
    {GD_OP_pow, 0x1.3333333333333p-2, 0x1.2c00000000000p+9, 0x0.00000e212a1dap-1022, 0x0.00000e2140318p-1022},
    {GD_OP_pow, 0x0.03739a252b281p-1022, 0x1.6666666666666p-1, 0x1.30aa16a8a8b1dp-720, 0x0.0p+0},
    {GD_OP_log2, 0x1.f27ecd7a34d8ap-764, 0, -0x1.7d84efa8f37d9p+9, -INFINITY},
    {GD_OP_log2, 0x1.61339bc68685ap-195, 0, -0x1.851240f8e9862p+7, -INFINITY},
    {GD_OP_log2, 0x1.8d69dd5f6b266p-307, 0, -0x1.325d9197824bcp+8, -INFINITY},
    {GD_OP_log2, 0x1.550e14571be17p-606, 0, -0x1.2ecb069db5dadp+9, -INFINITY},
    {GD_OP_log2, 0x1.932f3b0ff31dfp+547, 0, 0x1.11d3e0c031a37p+9, NAN},
    {GD_OP_log2, 0x1.39abb9d3f7c06p-209, 0, -0x1.a169edd24014cp+7, -INFINITY},
    {GD_OP_log2, 0x1.c56639b79a22cp+828, 0, 0x1.9e698dc05ff4ep+9, NAN},
    {GD_OP_log2, 0x1.bcb2c3a9f2937p+155, 0, 0x1.3797e6d800c05p+7, NAN},
    {GD_OP_log2, 0x1.0560fe4ae34d4p+0, 0, 0x1.eb7fef41ace99p-6, 0x1.eb7fd4cd625aap-6},
    {GD_OP_log2, 0x1.0710bfb04a053p+0, 0, 0x1.41c3973e99f11p-5, 0x1.41c3a53bb7392p-5},
    {GD_OP_log2, 0x1.0908c4c54f36ep+0, 0, 0x1.99e306c3d1047p-5, 0x1.99e2e465483c4p-5},
    {GD_OP_log2, 0x1.dc3d9e112ec5dp-1, 0, -0x1.abd6d0c5e936ep-4, -0x1.abd6d19b1df72p-4},
    {GD_OP_log2, 0x1.f9e35a756cb62p-1, 0, -0x1.1bdc749ed96c4p-6, -0x1.1bdc8a0d661d3p-6},
    {GD_OP_log2, 0x1.e554d35557dbep-1, 0, -0x1.3c1a8cac57da9p-4, -0x1.3c1a848e77762p-4},
    {GD_OP_log2, 0x1.0000000000000p+3, 0, 0x1.8000000000000p+1, 0x1.8000000000000p+1},
    {GD_OP_log2, 0x0.0000000004000p-1022, 0, -0x1.0900000000000p+10, -INFINITY},
    {GD_OP_log2, 0x1.0000000000004p+0, 0, 0x1.71547652b82fbp-50, 0x0.0p+0},
    {GD_OP_log10, 0x1.266b9f7306bb6p-169, 0, -0x1.9681b9199b97bp+5, -INFINITY},
    {GD_OP_log10, 0x1.bdd817f3149bfp-699, 0, -0x1.a45ba9052113bp+7, -INFINITY},
    {GD_OP_log10, 0x1.e454de77c2cd2p+809, 0, 0x1.e79ece81586d1p+7, NAN},
    {GD_OP_log10, 0x1.857299926f03ap-494, 0, -0x1.290d9fa8cbe27p+7, -INFINITY},
    {GD_OP_log10, 0x1.49db7403979b8p+297, 0, 0x1.661060ee999b5p+6, NAN},
    {GD_OP_log10, 0x1.652a6859c5048p-346, 0, -0x1.a00c07deee481p+6, -INFINITY},
    {GD_OP_log10, 0x1.880c28d95a886p+647, 0, 0x1.85e72bc89024cp+7, NAN},
    {GD_OP_log10, 0x1.c79dfe26127b2p+280, 0, 0x1.5227b0693f495p+6, NAN},
    {GD_OP_log10, 0x1.da4707969cfb9p-1, 0, -0x1.10480a16d26a6p-5, -0x1.1048070046464p-5},
    {GD_OP_log10, 0x1.11aaf54891b21p+0, 0, 0x1.dadea210a2c61p-6, 0x1.dadeb4b1eae33p-6},
    {GD_OP_log10, 0x1.16c80650b2507p+0, 0, 0x1.2f4c6c33d8566p-5, 0x1.2f4c682e03e7ap-5},
    {GD_OP_log10, 0x1.14ae37d71f125p+0, 0, 0x1.1463130d2aa2cp-5, 0x1.1463151acf91ep-5},
    {GD_OP_log10, 0x1.0391d2a3fdfb6p+0, 0, 0x1.8a20715adb923p-8, 0x1.8a202b1d0cae2p-8},
    {GD_OP_log10, 0x1.dbb1f2068328dp-1, 0, -0x1.05a9ba22da0a8p-5, -0x1.05a9ba538ec8fp-5},
    {GD_OP_log10, 0x1.f400000000000p+9, 0, 0x1.8000000000000p+1, 0x1.8000000000000p+1},
    {GD_OP_log10, 0x0.0000000000001p-1022, 0, -0x1.434e6420f4374p+8, -INFINITY},
    {GD_OP_log10, 0x1.ffffffffffff8p-1, 0, -0x1.bcb7b1526e512p-52, 0x0.0p+0},
    {GD_OP_log1p, 0x1.5185fb1242f13p-47, 0, 0x1.5185fb1242ef7p-47, 0x1.5185fbfffffe4p-47},
    {GD_OP_log1p, 0x1.ca1fd7e6a6aadp-5, 0, 0x1.bdc5da57558c9p-5, 0x1.bdc5da6f57325p-5},
    {GD_OP_log1p, 0x1.1f2abb32d028cp-26, 0, 0x1.1f2abb0a8c0dfp-26, 0x1.1f2abbd7bbe4fp-26},
    {GD_OP_log1p, 0x1.a3328c10a8ea1p-48, 0, 0x1.a3328c10a8e8cp-48, 0x1.a3328bfffffebp-48},
    {GD_OP_log1p, 0x1.3d2f3854d24b8p-7, 0, 0x1.3ba8bee699a4ap-7, 0x1.3ba8be9297856p-7},
    {GD_OP_log1p, 0x1.3ea9eaf787409p-21, 0, 0x1.3ea9e4c4dd17ap-21, 0x1.3ea9e3cd55e0bp-21},
    {GD_OP_log1p, -0x1.1f9dd1d936648p-25, 0, -0x1.1f9dd229ff341p-25, -0x1.1f9dd250c8cfbp-25},
    {GD_OP_log1p, -0x1.013c1d986032cp-36, 0, -0x1.013c1d9868469p-36, -0x1.013c1e000813dp-36},
    {GD_OP_log1p, -0x1.0156b0e3db1a4p-34, 0, -0x1.0156b0e3fb702p-34, -0x1.0156b0002055ep-34},
    {GD_OP_log1p, -0x1.14c79aa9f19cap-44, 0, -0x1.14c79aa9f1a60p-44, -0x1.14c79a0000096p-44},
    {GD_OP_log1p, -0x1.6723b95b7c142p-56, 0, -0x1.6723b95b7c142p-56, -0x1.6723ba0000000p-56},
    {GD_OP_log1p, -0x1.cfa3b35108402p-8, 0, -0x1.d14989b6d8a29p-8, -0x1.d1498a670f867p-8},
    {GD_OP_log1p, 0x1.d5956e4305f66p+404, 0, 0x1.18a35c7e5484fp+8, NAN},
    {GD_OP_log1p, 0x1.07a063511c645p+474, 0, 0x1.4894c43fd8dcep+8, NAN},
    {GD_OP_log1p, 0x1.d3e58100ef6bcp+278, 0, 0x1.8298919a8c9eep+7, NAN},
    {GD_OP_log1p, 0x1.4879b4c40bd79p+650, 0, 0x1.c2cb81f7f40abp+8, NAN},
    {GD_OP_log1p, 0x1.c11568ec727d9p+21, 0, 0x1.e3c7a95e10a80p+3, 0x1.e3c7a94d377bep+3},
    {GD_OP_log1p, 0x0.012688b70e62bp-1022, 0, 0x0.012688b70e62bp-1022, 0x0.0p+0},
    {GD_OP_log1p, -0x1.ffffffff24190p-1, 0, -0x1.7069e293f4c5cp+4, -INFINITY},
    {GD_OP_log1p, 0x1.fdcf158adbb99p+1023, 0, 0x1.62e3a367fde44p+9, NAN},
    {GD_OP_expm1, 0x1.b49b741d04218p-37, 0, 0x1.b49b741d0fc40p-37, 0x1.b49b74000ba28p-37},
    {GD_OP_expm1, 0x1.07dd0415db484p-56, 0, 0x1.07dd0415db484p-56, 0x1.07dd040000000p-56},
    {GD_OP_expm1, 0x1.4e1363dc61c74p-51, 0, 0x1.4e1363dc61c76p-51, 0x1.4e13640000002p-51},
    {GD_OP_expm1, 0x1.132c5fec20a84p-2, 0, 0x1.3bb1690e1c813p-2, 0x1.3bb169281c3eap-2},
    {GD_OP_expm1, 0x1.307694e5fb68dp-20, 0, 0x1.3076a036ca751p-20, 0x1.30769f50cefb3p-20},
    {GD_OP_expm1, 0x1.00af016d6e046p-33, 0, 0x1.00af016dae5c0p-33, 0x1.00af02004057ap-33},
    {GD_OP_expm1, -0x1.6e1940bdee366p-28, 0, -0x1.6e1940ad91d4ap-28, -0x1.6e193fefa39e5p-28},
    {GD_OP_expm1, -0x1.9487675a35aacp-8, 0, -0x1.9348719ee9785p-8, -0x1.93487243aea12p-8},
    {GD_OP_expm1, -0x1.1d33a8e5d9ad5p-38, 0, -0x1.1d33a8e5d731dp-38, -0x1.1d33a7fffd848p-38},
    {GD_OP_expm1, -0x1.47c837f1fafffp-24, 0, -0x1.47c8372022728p-24, -0x1.47c8372e27728p-24},
    {GD_OP_expm1, -0x1.ad61fe9dd89cdp-19, 0, -0x1.ad61d19ac2742p-19, -0x1.ad61d0fce9f86p-19},
    {GD_OP_expm1, -0x1.be7282e8f7473p-38, 0, -0x1.be7282e8f1321p-38, -0x1.be7281fff9eaep-38},
    {GD_OP_expm1, 0x1.5822046c947f6p+8, 0, 0x1.64c1e281db6cdp+496, 0x1.64c14b313e5c0p+496},
    {GD_OP_expm1, 0x1.07243b6dcc686p+9, 0, 0x1.33d32ad8a6151p+759, 0x1.33d48a725e878p+759},
    {GD_OP_expm1, 0x1.3c6576f169fa4p+9, 0, 0x1.e6b25a9fa75ecp+912, 0x1.e6aec4b44487dp+912},
    {GD_OP_expm1, 0x1.1f24f3ab7d92ep+6, 0, 0x1.7ad609cdbcbe3p+103, 0x1.7ad629118d61bp+103},
    {GD_OP_expm1, 0x1.455d7c1e6ea97p+9, 0, 0x1.bf689d66f6e18p+938, 0x1.bf683307b07bap+938},
    {GD_OP_expm1, -0x1.2157534582b11p+5, 0, -0x1.ffffffffffffep-1, -0x1.ffffffffffffep-1},
    {GD_OP_expm1, 0x0.012688b70e62bp-1022, 0, 0x0.012688b70e62bp-1022, 0x0.0p+0},
    {GD_OP_expm1, 0x1.62d999999999ap+9, 0, 0x1.d75ae7a50ee14p+1023, 0x1.d75c60bb2bbcep+1023},
    {GD_OP_expm1, -0x1.62eb1c432ca58p-2, 0, -0x1.2bf1186530eb9p-2, -0x1.2bf11835b1604p-2},
    {GD_OP_expm1, 0x1.62eb1c432ca58p-2, 0, 0x1.a831641af1de4p-2, 0x1.a83163bbf17edp-2},
    {GD_OP_expm1, -0x1.9000000000000p+9, 0, -0x1.0000000000000p+0, -0x1.0000000000000p+0},
    {GD_OP_softplus, 0x1.43cfab1ae1608p+1, 0, 0x1.4d9fb97991e82p+1, 0x1.4d9fba4dc7fe6p+1},
    {GD_OP_softplus, 0x1.8d796e87b72e0p+1, 0, 0x1.9315e59ba1752p+1, 0x1.9315e519bc6ddp+1},
    {GD_OP_softplus, -0x1.d0f127d4c7e08p+1, 0, 0x1.abc8a12a640d9p-6, 0x1.abc8a09bd1a53p-6},
    {GD_OP_softplus, -0x1.9f369b4f0eb10p-1, 0, 0x1.788a292eb4686p-2, 0x1.788a28c1d1c88p-2},
    {GD_OP_softplus, 0x1.93872d5b3cadcp+1, 0, 0x1.98e2a7ec270d2p+1, 0x1.98e2a88a296ccp+1},
    {GD_OP_softplus, -0x1.36ddceeb92ef3p+2, 0, 0x1.fb589e5cf3f29p-8, 0x1.fb58a5a13476fp-8},
    {GD_OP_softplus, 0x1.48dcd278a9690p+0, 0, 0x1.8768bbf373b87p+0, 0x1.8768bb94f20cfp+0},
    {GD_OP_softplus, 0x1.7711fe066d3cep+1, 0, 0x1.7dba32a3e4534p+1, 0x1.7dba329dca776p+1},
    {GD_OP_softplus, -0x1.056aea26438a2p+8, 0, 0x1.cebebec2ae9d3p-378, 0x1.cebf03ed19b1fp-378},
    {GD_OP_softplus, -0x1.e3c1ed7829148p+6, 0, 0x1.6f6fd8bfe6635p-175, 0x1.6f6fa801cc6b1p-175},
    {GD_OP_softplus, -0x1.c28f7d0563c46p+8, 0, 0x1.f876054e20deap-651, 0x1.f8741777f3ff1p-651},
    {GD_OP_softplus, -0x1.d4f9dde8e8aeap+8, 0, 0x1.54485676c1b3bp-677, 0x1.544837c544a72p-677},
    {GD_OP_softplus, -0x1.68561208076bap+8, 0, 0x1.1b03c0c42d76fp-520, 0x1.1b03c9a47fb67p-520},
    {GD_OP_softplus, -0x1.e1978ebdb5edcp+8, 0, 0x1.2806916cc4f2dp-695, 0x1.28076ccc4f29bp-695},
    {GD_OP_softplus, 0x1.7e43c8800759cp+996, 0, 0x1.7e43c8800759cp+996, NAN},
    {GD_OP_softplus, -0x1.7200000000000p+9, 0, 0x0.0000000000055p-1022, 0x0.0000000000055p-1022},
    {GD_OP_erf, -0x1.d8e635d743348p+0, 0, -0x1.fb65a0aca82dep-1, -0x1.fb65a0afaff6ep-1},
    {GD_OP_erf, 0x1.5828c684ee310p+2, 0, 0x1.ffffffffffeffp-1, 0x1.ffffffffffeffp-1},
    {GD_OP_erf, 0x1.c28e643ccc310p-1, 0, 0x1.92c82d3235fe7p-1, 0x1.92c82d129602ap-1},
    {GD_OP_erf, -0x1.eb4f96f029afcp+0, 0, -0x1.fc9909d058e24p-1, -0x1.fc9909c2b89e3p-1},
    {GD_OP_erf, -0x1.5ef02cd32cb2ap+1, 0, -0x1.fff228b90fe47p-1, -0x1.fff228b88b348p-1},
    {GD_OP_erf, 0x1.5b2a94874495ep+2, 0, 0x1.fffffffffff67p-1, 0x1.fffffffffff67p-1},
    {GD_OP_erf, -0x1.552039aabe910p-1, 0, -0x1.4ecface5581adp-1, -0x1.4ecfad230f37ep-1},
    {GD_OP_erf, 0x1.70f173809b4a0p+2, 0, 0x1.ffffffffffffdp-1, 0x1.ffffffffffffdp-1},
    {GD_OP_erf, 0x1.17c178f187160p-5, 0, 0x1.3b8c42a4b6502p-5, 0x1.3b8c41947eb8cp-5},
    {GD_OP_erf, 0x1.7d76e5c951900p-5, 0, 0x1.ae2028c4a4a4dp-5, 0x1.ae20290235f9dp-5},
    {GD_OP_erf, 0x1.bea9ca7bf48fcp-1, 0, 0x1.90be4daf26e8bp-1, 0x1.90be4d6dcf438p-1},
    {GD_OP_erf, 0x1.11740637c76b2p-1, 0, 0x1.1991bb39004a6p-1, 0x1.1991bb09ae6b7p-1},
    {GD_OP_erf, 0x1.6b63b91d59308p-3, 0, 0x1.95c740f74151ep-3, 0x1.95c741ef13df5p-3},
    {GD_OP_erf, -0x1.4a7ced462b0acp-3, 0, -0x1.71b433b4ee293p-3, -0x1.71b434813aab7p-3},
    {GD_OP_erf, 0x0.012688b70e62bp-1022, 0, 0x0.014c5898977c4p-1022, 0x0.0p+0},
    {GD_OP_erf, 0x1.79ca10c924223p-67, 0, 0x1.aa4a230244ae0p-67, 0x1.aa4a221f4e076p-67},
    {GD_OP_erf, 0x1.e000000000000p+4, 0, 0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {GD_OP_erfc, 0x1.2272c237d6580p+2, 0, 0x1.2f82fe33321abp-33, 0x1.2f8307ce796d3p-33},
    {GD_OP_erfc, -0x1.0f6c4b8781d88p+0, 0, 0x1.ddc180eba004ap+0, 0x1.ddc18117cdd93p+0},
    {GD_OP_erfc, 0x1.44adea2d24a68p+2, 0, 0x1.98a3b1195dbdfp-41, 0x1.98a3bcbcb355cp-41},
    {GD_OP_erfc, -0x1.4b3a0315b5df8p+2, 0, 0x1.ffffffffffb9cp+0, 0x1.ffffffffffb9cp+0},
    {GD_OP_erfc, -0x1.ae196a720b870p-1, 0, 0x1.c3e1c4905476dp+0, 0x1.c3e1c4708eff2p+0},
    {GD_OP_erfc, 0x1.df98a16f9f600p-3, 0, 0x1.7b242efa59e74p-1, 0x1.7b242ed3cbe27p-1},
    {GD_OP_erfc, 0x1.5a520e879fb74p+2, 0, 0x1.6298e89c6a8f4p-46, 0x1.629908e753d6ep-46},
    {GD_OP_erfc, -0x1.7e771489867e0p+1, 0, 0x1.fffe705679aafp+0, 0x1.fffe70566f21fp+0},
    {GD_OP_erfc, 0x1.4f4ff1ed472d8p+4, 0, 0x1.1d552ac6d3335p-639, 0x1.1d54f40cef102p-639},
    {GD_OP_erfc, 0x1.19697a171acf9p+4, 0, 0x1.ac56ff2541e0ep-452, 0x1.ac5754467f967p-452},
    {GD_OP_erfc, 0x1.2a4ec7cc60f6cp+4, 0, 0x1.60230354a294ap-507, 0x1.60225d9c4885ep-507},
    {GD_OP_erfc, 0x1.05ec3e75b8146p+4, 0, 0x1.6f6b2d9178947p-392, 0x1.6f6c87f05c062p-392},
    {GD_OP_erfc, 0x1.942b5446ff2b0p+4, 0, 0x1.e981e8e09c00fp-927, 0x1.e98395dfb10d6p-927},
    {GD_OP_erfc, 0x1.14ca7d46b819dp+3, 0, 0x1.14e09d1eb0c93p-112, 0x1.14e03012a1a45p-112},
    {GD_OP_erfc, 0x1.9996fa82e87d3p-2, 0, 0x1.24ab047e8909ap-1, 0x1.24ab04bd78fcep-1},
    {GD_OP_erfc, 0x1.999999999999ap-2, 0, 0x1.24a9c1da6fafdp-1, 0x1.24a9c1a93492ap-1},
    {GD_OP_erfc, 0x1.a800000000000p+4, 0, 0x1.3df6725a60cf5p-1019, 0x1.3df6725a60cf5p-1019},
    {GD_OP_erfc, 0x1.79ca10c924223p-67, 0, 0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {GD_OP_erfc, 0x1.e000000000000p+4, 0, 0x0.0p+0, 0x0.0p+0},
    {GD_OP_gelu, -0x1.387f5ae492744p+0, 0, -0x1.15c01f2651599p-3, -0x1.15c02001e3697p-3},
    {GD_OP_gelu, -0x1.c853da399d04cp+1, 0, -0x1.53f7f378879bdp-11, -0x1.53f7f5950bd3cp-11},
    {GD_OP_gelu, -0x1.590f2d567e398p+2, 0, -0x1.9461f0dee3dffp-23, -0x1.9461da5c2caeap-23},
    {GD_OP_gelu, -0x1.b8f917592ee39p+1, 0, -0x1.01c4bedb100f8p-10, -0x1.01c4ba61b7e78p-10},
    {GD_OP_gelu, 0x1.3f139fcae60c8p+2, 0, 0x1.3f1399555441ep+2, 0x1.3f13998a6e501p+2},
    {GD_OP_gelu, 0x1.053fe92a715f6p+2, 0, 0x1.053e6afa58aa4p+2, 0x1.053e6bcffb833p+2},
    {GD_OP_gelu, -0x1.29ac21c93860fp+2, 0, -0x1.019a269f3fd8bp-17, -0x1.019a22a15599fp-17},
    {GD_OP_gelu, 0x1.3ecf257cf5d70p+0, 0, 0x1.1cdafafd7dd79p+0, 0x1.1cdafb908e27cp+0},
    {GD_OP_gelu, -0x1.f3f8ab5ed794cp+3, 0, -0x1.7e3da565f4c11p-178, -0x1.7e3d2fea10f81p-178},
    {GD_OP_gelu, -0x1.851a3f08d9c62p+3, 0, -0x1.0217f4d8c5e92p-108, -0x1.0217962cc45d6p-108},
    {GD_OP_gelu, -0x1.4718930a4a224p+3, 0, -0x1.394aba22b7137p-77, -0x1.394a5a19abd7ep-77},
    {GD_OP_gelu, -0x1.4ccdae87cba82p+4, 0, -0x1.7edcfb178dc6fp-314, -0x1.7ede031c5782cp-314},
    {GD_OP_gelu, -0x1.28d354c83f910p+0, 0, -0x1.24636656e1ac0p-3, -0x1.2463670bfbc20p-3},
    {GD_OP_gelu, 0x0.012688b70e62bp-1022, 0, 0x0.0093445b87316p-1022, 0x0.0p+0},
    {GD_OP_gelu, 0x1.7e43c8800759cp+996, 0, 0x1.7e43c8800759cp+996, NAN},
    {GD_OP_gelu, -0x1.7e43c8800759cp+996, 0, -0x0.0p+0, NAN},
    {GD_OP_sin, 0x1.0000000000000p-1, 0, 0x1.eaee8744b05f0p-2, 0x1.eaee8744b05f0p-2},
    {GD_OP_sin, -0x1.3333333333333p+1, 0, -0x1.59d64f5c3d19bp-1, -0x1.59d64d002a6c5p-1},
    {GD_OP_sin, 0x1.12e0be826d695p-30, 0, 0x1.12e0be826d695p-30, 0x1.12e0be0000000p-30},
    {GD_OP_sin, 0x1.921fb54442d18p+1, 0, 0x1.1a62633145c07p-53, -0x1.777a5cf72cec6p-24},
    {GD_OP_sin, 0x1.6300000000000p+8, 0, -0x1.f9bd0307d1de3p-16, -0x1.f9bd0307d1de3p-16},
    {GD_OP_sin, 0x1.86a0400000000p+16, 0, -0x1.b36c03d8ef22dp-3, -0x1.b36c03d8ef22dp-3},
    {GD_OP_sin, 0x1.6e36000000000p+20, 0, 0x1.05a19f9bf8b6cp-1, 0x1.05a19f9bf8b6cp-1},
    {GD_OP_sin, 0x1.9f0a000000000p+20, 0, 0x1.2468b4fe40abcp-1, 0x1.2468b4fe40abcp-1},
    {GD_OP_sin, 0x1.0f0cf064dd592p+73, 0, -0x1.b453ab76bf397p-1, -0x1.77d988f563719p-1},
    {GD_OP_sin, 0x1.6ac5b262ca1ffp+849, 0, 0x1.0000000000000p+0, NAN},
    {GD_OP_sin, -0x1.d8c8a02261ef5p+1022, 0, -0x1.21df545a227bfp-1, NAN},
    {GD_OP_sin, 0x1.d6f3454000000p+26, 0, 0x1.faf0521c8dc5cp-1, -0x1.ebbb379000039p-1},
    {GD_OP_sin, -0x1.44b62172696d4p-2, 0, -0x1.3f4c05276cdd9p-2, -0x1.3f4c05adf44e5p-2},
    {GD_OP_sin, -0x1.41c703c5b761ap-1, 0, -0x1.2d026836ad77ap-1, -0x1.2d026865d328ep-1},
    {GD_OP_sin, 0x1.1633d1d7ecd96p-2, 0, 0x1.12cae95668bc7p-2, 0x1.12cae97d03972p-2},
    {GD_OP_sin, -0x1.8a0aef9496d60p-1, 0, -0x1.644792e23d212p-1, -0x1.6447932f6102dp-1},
    {GD_OP_cos, 0x1.0000000000000p-1, 0, 0x1.c1528065b7d50p-1, 0x1.c1528065b7d50p-1},
    {GD_OP_cos, -0x1.3333333333333p+1, 0, -0x1.798bab490d185p-1, -0x1.798bad7263fbdp-1},
    {GD_OP_cos, 0x1.12e0be826d695p-30, 0, 0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {GD_OP_cos, 0x1.921fb54442d18p+0, 0, 0x1.1a62633145c07p-54, -0x1.777a5cf72ceccp-25},
    {GD_OP_cos, 0x1.6300000000000p+7, 0, -0x1.f9bd0308c896fp-17, -0x1.f9bd0308c896fp-17},
    {GD_OP_cos, 0x1.86a0400000000p+16, 0, -0x1.f44b5d9b09859p-1, -0x1.f44b5d9b09859p-1},
    {GD_OP_cos, 0x1.6e36000000000p+20, 0, -0x1.b81b10301dab6p-1, -0x1.b81b10301dab6p-1},
    {GD_OP_cos, 0x1.9f0a000000000p+20, 0, -0x1.a44969d28fe08p-1, -0x1.a44969d28fe08p-1},
    {GD_OP_cos, 0x1.0f0cf064dd592p+73, 0, 0x1.0be2cef01c8f4p-1, 0x1.5baded759a40dp-1},
    {GD_OP_cos, 0x1.6ac5b262ca1ffp+849, 0, -0x1.14ae72e6ba22fp-61, NAN},
    {GD_OP_cos, -0x1.d8c8a02261ef5p+1022, 0, -0x1.a60a502b174eep-1, NAN},
    {GD_OP_cos, 0x1.d6f3454000000p+26, 0, 0x1.1f4077c91589fp-3, -0x1.1d4458ba19585p-2},
    {GD_OP_cos, 0x1.088d03f059a98p-4, 0, 0x1.feeeb52db7a8fp-1, 0x1.feeeb52d97566p-1},
    {GD_OP_cos, -0x1.ef1fd726a6bacp-3, 0, 0x1.f11c2e3d82189p-1, 0x1.f11c2e307fcd6p-1},
    {GD_OP_cos, -0x1.9759230a66ef9p-1, 0, 0x1.665362f987707p-1, 0x1.6653624a1a26ep-1},
    {GD_OP_cos, 0x1.b693cfc886d80p-7, 0, 0x1.fff44292faf38p-1, 0x1.fff44292f7fb4p-1},
    {GD_OP_tan, 0x1.0000000000000p-1, 0, 0x1.17b4f5bf3474ap-1, 0x1.17b4f5bf3474ap-1},
    {GD_OP_tan, -0x1.3333333333333p+1, 0, 0x1.d4ffd331a1c6cp-1, 0x1.d4ffcd4f0e52ap-1},
    {GD_OP_tan, 0x1.12e0be826d695p-30, 0, 0x1.12e0be826d695p-30, 0x1.12e0be0000000p-30},
    {GD_OP_tan, 0x1.921fb54442d18p+0, 0, 0x1.d02967c31cdb5p+53, -0x1.5d14946dc9897p+24},
    {GD_OP_tan, 0x1.921fb54442d18p-1, 0, 0x1.fffffffffffffp-1, 0x1.000000bbbd2ecp+0},
    {GD_OP_tan, 0x1.6300000000000p+7, 0, -0x1.032b6ae57d44ep+16, -0x1.032b6ae57d44ep+16},
    {GD_OP_tan, 0x1.86a0400000000p+16, 0, 0x1.bd9c147f2083ep-3, 0x1.bd9c147f2083ep-3},
    {GD_OP_tan, 0x1.9f0a000000000p+20, 0, -0x1.6437a03a84f09p-1, -0x1.6437a03a84f09p-1},
    {GD_OP_tan, 0x1.0f0cf064dd592p+73, 0, -0x1.a0f79c1b6b257p+0, -0x1.14bdfb7ac8b93p+0},
    {GD_OP_tan, 0x1.6ac5b262ca1ffp+849, 0, -0x1.d9ba9a7975636p+60, NAN},
    {GD_OP_tan, 0x1.6000000000000p+3, 0, -0x1.c3e6d558b0924p+7, -0x1.c3e6d558b0924p+7},
    {GD_OP_tan, -0x1.aa3e76dc7fb69p-1, 0, -0x1.1955104138f31p+0, -0x1.19550f4dd3220p+0},
    {GD_OP_tan, -0x1.e937941836698p-4, 0, -0x1.eb8e86c921f0cp-4, -0x1.eb8e86b092420p-4},
    {GD_OP_tan, -0x1.8c6bd67de028ep-1, 0, -0x1.f4b84d98e0bb1p-1, -0x1.f4b84ca29ca81p-1},
    {GD_OP_tan, -0x1.7932ea4084f49p-1, 0, -0x1.d06da7388856bp-1, -0x1.d06da6c2ed21dp-1},
    {GD_OP_asin, 0x1.999999999999ap-4, 0, 0x1.9a49276037884p-4, 0x1.9a4927c721fedp-4},
    {GD_OP_asin, -0x1.fef9db22d0e56p-2, 0, -0x1.0b7dd7169b56dp-1, -0x1.0b7dd79638f3fp-1},
    {GD_OP_asin, 0x1.0000000000000p-1, 0, 0x1.0c152382d7366p-1, 0x1.0c152382d7366p-1},
    {GD_OP_asin, 0x1.051eb851eb852p-1, 0, 0x1.1203bda719c39p-1, 0x1.1203bd47dd384p-1},
    {GD_OP_asin, -0x1.8000000000000p-1, 0, -0x1.b235315c680dcp-1, -0x1.b235315c680dcp-1},
    {GD_OP_asin, 0x1.fffffca501acbp-1, 0, 0x1.920266447a7fap+0, 0x1.91ffb5443d7c3p+0},
    {GD_OP_asin, 0x1.fffffffffe000p-1, 0, 0x1.921f9ea3a46b0p+0, 0x1.921fb54442d18p+0},
    {GD_OP_asin, 0x1.19799812dea11p-40, 0, 0x1.19799812dea11p-40, 0x1.1979980000000p-40},
    {GD_OP_asin, -0x1.1640a14b29714p-3, 0, -0x1.171d9f7a5454ap-3, -0x1.171da030dc2e8p-3},
    {GD_OP_asin, 0x1.2d3a174df0b53p-1, 0, 0x1.420bdd5b80a97p-1, 0x1.420bde37b4806p-1},
    {GD_OP_asin, -0x1.5ab440b940f8bp-1, 0, -0x1.7cdf5523cea69p-1, -0x1.7cdf54280c749p-1},
    {GD_OP_asin, -0x1.fe203da1e75efp-2, 0, -0x1.0b0051722f4cep-1, -0x1.0b0051a871f86p-1},
    {GD_OP_acos, 0x1.999999999999ap-4, 0, 0x1.787b22ce3f590p+0, 0x1.787b22c7d0b19p+0},
    {GD_OP_acos, -0x1.fef9db22d0e56p-2, 0, 0x1.0bef5067c83e7p+1, 0x1.0bef5087afa5cp+1},
    {GD_OP_acos, 0x1.0000000000000p-1, 0, 0x1.0c152382d7366p+0, 0x1.0c152382d7366p+0},
    {GD_OP_acos, -0x1.051eb851eb852p-1, 0, 0x1.0d90ca0be7d9ap+1, 0x1.0d90c9f418b6dp+1},
    {GD_OP_acos, 0x1.8000000000000p-1, 0, 0x1.720a392c1d955p-1, 0x1.720a392c1d955p-1},
    {GD_OP_acos, -0x1.fffffca501acbp-1, 0, 0x1.92110dc45ea89p+1, 0x1.920fb5444026ep+1},
    {GD_OP_acos, 0x1.fffffffffe000p-1, 0, 0x1.6a09e667f3dafp-20, 0x0.0p+0},
    {GD_OP_acos, 0x1.19799812dea11p-40, 0, 0x1.921fb54441b81p+0, 0x1.921fb54441b81p+0},
    {GD_OP_acos, 0x1.d5c513a63eb64p-3, 0, 0x1.56e006ea07f4fp+0, 0x1.56e006de811e1p+0},
    {GD_OP_acos, 0x1.9c9bcaad86c93p-1, 0, 0x1.446ccfa57eaf9p-1, 0x1.446cd0ca92803p-1},
    {GD_OP_acos, 0x1.1c3b78a76ae04p-3, 0, 0x1.6e7ad1d9f8582p+0, 0x1.6e7ad1ef1a0e6p+0},
    {GD_OP_acos, -0x1.7ce08982bfcecp-3, 0, 0x1.c203263dc2703p+0, 0x1.c203264db1a04p+0},
    {GD_OP_atan, 0x1.999999999999ap-4, 0, 0x1.983e282e2cc4dp-4, 0x1.983e28938f9ecp-4},
    {GD_OP_atan, -0x1.b851eb851eb85p-2, 0, -0x1.9fd82b5dc5e5fp-2, -0x1.9fd82bc57a5ddp-2},
    {GD_OP_atan, 0x1.c28f5c28f5c29p-2, 0, 0x1.a8747d793c3dcp-2, 0x1.a8747d56eb412p-2},
    {GD_OP_atan, 0x1.5c28f5c28f5c3p-1, 0, 0x1.31c12390e29fap-1, 0x1.31c123bae5fc0p-1},
    {GD_OP_atan, -0x1.6147ae147ae14p-1, 0, -0x1.353d41c5dfe67p-1, -0x1.353d41b8000dep-1},
    {GD_OP_atan, 0x1.fae147ae147aep-1, 0, 0x1.8f8d0f7321467p-1, 0x1.8f8d0f9c806acp-1},
    {GD_OP_atan, 0x1.028f5c28f5c29p+0, 0, 0x1.94abcd5ca9acfp-1, 0x1.94abcd341c3fcp-1},
    {GD_OP_atan, 0x1.a666666666666p+1, 0, 0x1.46ccc069c173fp+0, 0x1.46ccc05887f74p+0},
    {GD_OP_atan, -0x1.86a0000000000p+16, 0, -0x1.921f0d7e968a8p+0, -0x1.921f0d7e968a8p+0},
    {GD_OP_atan, 0x1.19799812dea11p-40, 0, 0x1.19799812dea11p-40, 0x1.1979980000000p-40},
    {GD_OP_atan, 0x1.7e43c8800759cp+996, 0, 0x1.921fb54442d18p+0, NAN},
    {GD_OP_atan, 0x1.3333333333333p+1, 0, 0x1.2d0ead6066395p+0, 0x1.2d0ead9cfdb3ep+0},
    {GD_OP_atan, 0x1.b6eaad3311917p-1, 0, 0x1.6ad9da2d34c80p-1, 0x1.6ad9daa3545a7p-1},
    {GD_OP_atan, -0x1.a1de911978e27p-1, 0, -0x1.5e7858d13dd5ap-1, -0x1.5e78595b9ae36p-1},
    {GD_OP_atan, 0x1.4a5d51f5bde29p-1, 0, 0x1.256366b1bec3cp-1, 0x1.256366b8fcec1p-1},
    {GD_OP_atan, -0x1.83cacb3907c60p-2, 0, -0x1.72b3a5c64b8a2p-2, -0x1.72b3a6744ef27p-2},
    {GD_OP_sinh, 0x1.999999999999ap-4, 0, 0x1.9a487337b59b3p-4, 0x1.9a48739e9f300p-4},
    {GD_OP_sinh, -0x1.fae147ae147aep-1, 0, -0x1.28ea8bd25b2d2p+0, -0x1.28ea8c111520bp+0},
    {GD_OP_sinh, 0x1.028f5c28f5c29p+0, 0, 0x1.30d12064c28b5p+0, 0x1.30d1202512219p+0},
    {GD_OP_sinh, -0x1.0bf87f51400d1p+1, 0, -0x1.ff5f1ce59db66p+1, -0x1.ff5f1fb54bae1p+1},
    {GD_OP_sinh, 0x1.6000000000000p+2, 0, 0x1.e9602d48d0661p+6, 0x1.e9602d48d0661p+6},
    {GD_OP_sinh, -0x1.4000000000000p+5, 0, -0x1.a220d397972ebp+56, -0x1.a220d397972ebp+56},
    {GD_OP_sinh, 0x1.2c4cccccccccdp+8, 0, 0x1.2e9c6cabf8f3fp+432, INFINITY},
    {GD_OP_sinh, 0x1.62f3333333333p+9, 0, 0x1.1fdb71f9335bap+1023, INFINITY},
    {GD_OP_sinh, 0x1.6333333333333p+9, 0, 0x1.da98a7371610bp+1023, INFINITY},
    {GD_OP_sinh, 0x1.19799812dea11p-40, 0, 0x1.19799812dea11p-40, 0x1.1979980000000p-40},
    {GD_OP_sinh, -0x1.47dac181b6865p-1, 0, -0x1.5eb9482c5b29ep-1, -0x1.5eb948c56e5e9p-1},
    {GD_OP_sinh, -0x1.603e1fd7d4abap-1, 0, -0x1.7cb1bba96814dp-1, -0x1.7cb1bbdb76845p-1},
    {GD_OP_sinh, -0x1.61019cfeeaae8p-2, 0, -0x1.680a35b36d374p-2, -0x1.680a34a53649bp-2},
    {GD_OP_sinh, 0x1.235790c1c4473p-1, 0, 0x1.3352297a2bed2p-1, 0x1.335228982ddd8p-1},
    {GD_OP_cosh, 0x1.999999999999ap-4, 0, 0x1.0147f40224b38p+0, 0x1.0147f402c8d08p+0},
    {GD_OP_cosh, -0x1.fae147ae147aep-1, 0, 0x1.880a323a40721p+0, 0x1.880a3269c2221p+0},
    {GD_OP_cosh, 0x1.028f5c28f5c29p+0, 0, 0x1.8e0e94e29a24cp+0, 0x1.8e0e94b1d4d7ep+0},
    {GD_OP_cosh, -0x1.0bf87f51400d1p+1, 0, 0x1.0792ec75e287dp+2, 0x1.0792edd2f49bbp+2},
    {GD_OP_cosh, 0x1.6000000000000p+2, 0, 0x1.e9645c9b6718bp+6, 0x1.e9645c9b6718bp+6},
    {GD_OP_cosh, -0x1.4000000000000p+5, 0, 0x1.a220d397972ebp+56, 0x1.a220d397972ebp+56},
    {GD_OP_cosh, 0x1.2c4cccccccccdp+8, 0, 0x1.2e9c6cabf8f3fp+432, INFINITY},
    {GD_OP_cosh, 0x1.62f3333333333p+9, 0, 0x1.1fdb71f9335bap+1023, INFINITY},
    {GD_OP_cosh, 0x1.6333333333333p+9, 0, 0x1.da98a7371610bp+1023, INFINITY},
    {GD_OP_cosh, 0x1.19799812dea11p-40, 0, 0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {GD_OP_cosh, -0x1.263e18f420c38p-1, 0, 0x1.2b737e67769f5p+0, 0x1.2b737e1d6371dp+0},
    {GD_OP_cosh, 0x1.2ccf936d9c694p-3, 0, 0x1.02c433eb82e1ep+0, 0x1.02c433ee35698p+0},
    {GD_OP_cosh, 0x1.000b992b49156p-2, 0, 0x1.080b6be419a6bp+0, 0x1.080b6bf18944ap+0},
    {GD_OP_cosh, -0x1.d664c96cb438cp-3, 0, 0x1.06c849675694ep+0, 0x1.06c8496b9abcap+0},
    {GD_OP_atan2, 0x1.0000000000000p+0, -0x1.0000000000000p+1, 0x1.56c6e7397f5aep+1, 0x1.56c6e7397f5aep+1},
    {GD_OP_atan2, -0x1.8000000000000p+1, 0x1.0000000000000p-1, -0x1.67d8863bc99bdp+0, -0x1.67d8863bc99bdp+0},
    {GD_OP_atan2, 0x1.56e1fc2f8f359p-997, 0x1.c16c5c5253575p-1014, 0x1.921f0d7e968a8p+0, NAN},
    {GD_OP_atan2, 0x1.0000000000000p+1, -0x1.7e43c8800759cp+996, 0x1.921fb54442d18p+1, NAN},
    {GD_OP_atan2, -0x1.8000000000000p+0, -0x1.3333333333333p+0, -0x1.1f6dc3e631131p+1, -0x1.1f6dc40fd155ap+1},
    {GD_OP_atan2, 0x1.999999999999ap-2, 0x1.ccccccccccccdp-1, 0x1.ac42ffa7bcbcfp-2, 0x1.ac4300afa7a04p-2},
    {GD_OP_atan2, 0x0.03739a252b281p-1022, -0x0.012688b70e62bp-1022, 0x1.e47df3d0dd4d1p+0, NAN},
    {GD_OP_mod, 0x1.5333333333333p+2, 0x1.3333333333333p-2, 0x1.999999999999ap-3, 0x1.9999980000000p-3},
    {GD_OP_mod, -0x1.5333333333333p+2, 0x1.3333333333333p-2, 0x1.9999999999998p-4, 0x1.9999a00000000p-4},
    {GD_OP_mod, 0x1.7e43c8800759cp+996, 0x1.d99999999999ap+1, 0x1.c408f4350ed98p+0, NAN},
    {GD_OP_mod, 0x1.c000000000000p+2, -0x1.0624dd2f1a9fcp-10, -0x1.5000000000000p-53, -0x1.6500000000000p-22},
    {GD_OP_mod, -0x1.79ca10c924223p-67, 0x1.8000000000000p+1, 0x1.8000000000000p+1, 0x1.8000000000000p+1},
    {GD_OP_mod, 0x1.78c29dccccccdp+23, 0x1.999999999999ap-4, 0x1.999999841adf8p-4, 0x1.06b7e00000000p-6},

    {GD_OP_erf, -0x1.f107f6a192ab0p-1, 0, -0x1.a910d196e5cb9p-1, -0x1.a910d14fd97f0p-1},
    {GD_OP_erf, 0x1.0000000000000p+0, 0, 0x1.af767a741088bp-1, 0x1.af767a741088bp-1},
    {GD_OP_erf, 0x1.000001ad7f29bp+0, 0, 0x1.af767bd8a3a10p-1, 0x1.af767c1d2275fp-1},
    {GD_OP_erf, 0x1.b333333333333p+0, 0, 0x1.f7b3620b8747bp-1, 0x1.f7b3622537024p-1},
    {GD_OP_erf, -0x1.4000000000000p+1, 0, -0x1.ffcaa8f4c9beap-1, -0x1.ffcaa8f4c9beap-1},
    {GD_OP_erf, 0x1.399999999999ap+2, 0, 0x1.fffffffff6b8fp-1, 0x1.fffffffff6b8fp-1},
    {GD_OP_erf, 0x1.7333333333333p+2, 0, 0x1.ffffffffffffep-1, 0x1.ffffffffffffep-1},
    {GD_OP_softplus, 0x1.0dee745eb0e65p-14, 0, 0x1.62e867ade795bp-1, 0x1.62e867ade61afp-1},
    {GD_OP_softplus, -0x1.2c20000000000p+9, 0, 0x1.03fcf33f2b267p-866, NAN},
    {GD_OP_softplus, -0x1.259999999999ap+5, 0, 0x1.0998b04bdd18fp-53, 0x1.0998a3043b049p-53},
    {GD_OP_softplus, 0x1.6666666666666p-1, 0, 0x1.1a6a66a15dd2ep+0, 0x1.1a6a667f27c0cp+0},
    {GD_OP_softplus, -0x1.6666666666666p-2, 0, 0x1.1117774396579p-1, 0x1.11177758c0a0cp-1},
    {GD_OP_softplus, 0x1.9000000000000p+4, 0, 0x1.9000000000f45p+4, 0x1.9000000000f45p+4},
    {GD_OP_gelu, -0x1.95a1fb429e3e4p+3, 0, -0x1.b0fb51eae0e2ap-118, -0x1.b0fad30b86488p-118},
    {GD_OP_gelu, -0x1.23d70a3d70a3dp-1, 0, -0x1.4bed0126d23eap-3, -0x1.4bed011072a12p-3},
    {GD_OP_gelu, 0x1.1eb851eb851ecp-1, 0, 0x1.987043dedfd5cp-2, 0x1.98704403df0e1p-2},
    {GD_OP_gelu, -0x1.a666666666666p+1, 0, -0x1.a232bfa338b90p-10, -0x1.a232c3e5f62acp-10},
    {GD_OP_gelu, 0x1.199999999999ap+1, 0, 0x1.15af4e57fd9bdp+1, 0x1.15af4ec4f56adp+1},
    {GD_OP_pow, 0x1.1902280000000p+1, -0x1.7264200000000p+3, 0x1.d3809affcbe82p-14, 0x1.d3809affcbe82p-14},
    {GD_OP_lgamma, 0x1.41f7e86a17460p-1, 0, 0x1.6bcbcaa86994ep-2, 0x1.6bcbcbd9e3e35p-2},
    {GD_OP_lgamma, 0x1.cbe654cca27a2p-1, 0, 0x1.15538c46c8cf1p-4, 0x1.155391203354fp-4},
    {GD_OP_lgamma, 0x1.8e4cb023a51ffp-1, 0, 0x1.6433b0a60af22p-3, 0x1.6433b13707228p-3},
    {GD_OP_lgamma, 0x1.567ac481c01f3p+0, 0, -0x1.d2026eca66ef0p-4, -0x1.d2026dc2759edp-4},
    {GD_OP_lgamma, 0x1.73438be595530p+0, 0, -0x1.f159a52b5c254p-4, -0x1.f159a5300a384p-4},
    {GD_OP_lgamma, 0x1.27b8e62176bbap+1, 0, 0x1.4888a2d8f070dp-3, 0x1.4888a194ac3e0p-3},
    {GD_OP_lgamma, 0x1.020599ba5e728p+0, 0, -0x1.276af1ba1a4f2p-8, -0x1.276b19050901fp-8},
    {GD_OP_lgamma, 0x1.7e36496e47ebep+3, 0, 0x1.15dafd8090819p+4, 0x1.15dafe322e57cp+4},
    {GD_OP_lgamma, 0x1.75525116205ecp+3, 0, 0x1.0b12bbf8e3970p+4, 0x1.0b12bd1315b69p+4},
    {GD_OP_lgamma, 0x1.f8666e9c77a52p+2, 0, 0x1.092d1195e511ep+3, 0x1.092d10f973524p+3},
    {GD_OP_lgamma, 0x1.7f08286118eb1p+2, 0, 0x1.30bfc1c11c679p+2, 0x1.30bfc11bb7d9cp+2},
    {GD_OP_lgamma, 0x1.6cebd712bb6b8p+2, 0, 0x1.125fc0f917987p+2, 0x1.125fc280b7239p+2},
    {GD_OP_lgamma, 0x1.bead3593f1cb2p-27, 0, 0x1.228876da593a9p+4, 0x1.228876d67a5dap+4},
    {GD_OP_lgamma, 0x1.eb33333333333p+4, 0, 0x1.26899c3bd3c9dp+6, 0x1.26899cea4fa72p+6},
    {GD_OP_lgamma, 0x1.34a0000000000p+10, 0, 0x1.d7e8d07da60e4p+12, 0x1.d7e8d07da60e4p+12},
    {GD_OP_lgamma, 0x1.fffe5c91d14e4p+2, 0, 0x1.10cc787d4ab90p+3, 0x1.10cc77ea55b91p+3},
    {GD_OP_lgamma, 0x1.0000d1b71758ep+3, 0, 0x1.10cfc5e925c86p+3, 0x1.10cfc67c1b47ap+3},
    {GD_OP_lgamma, 0x1.7fff2e48e8a72p+3, 0, 0x1.180873d213738p+4, 0x1.1808737907d0fp+4},
    {GD_OP_lgamma, 0x1.8000d1b71758ep+3, 0, 0x1.180a741579f2fp+4, 0x1.180a746e85bf1p+4},
    {GD_OP_lgamma, 0x1.5af1d78b58c40p+66, 0, 0x1.e873977d7ba96p+71, 0x1.e87398255c4f9p+71},
    {GD_OP_lgamma, 0x1.00be353f7ced9p+0, 0, -0x1.b559bd3493464p-10, -0x1.b55b76054304cp-10},
    {GD_OP_lgamma, 0x1.fff972474538fp+0, 0, -0x1.62a151ce4a3dfp-15, -0x1.62b0621d510c0p-15},
    {GD_OP_lgamma, 0x1.0020c49ba5e35p+1, 0, 0x1.bba8d96b3fc11p-12, 0x1.bba09c6e3fe92p-12},
    {GD_OP_lgamma, 0x1.000010c6f7a0bp+0, 0, -0x1.35e3cdca2d678p-21, -0x1.2788b57555cc6p-21},
    {GD_OP_lgamma, 0x1.856c1984e1cbfp-102, 0, 0x1.1920483ecf661p+6, 0x1.1920483d8ba7dp+6},
    {GD_OP_lgamma, 0x1.dcc08aa4d083bp+0, 0, -0x1.a949da2e712e1p-5, -0x1.a949e0fa7dbc3p-5},
    {GD_OP_lgamma, 0x1.b467ac59ded67p-1, 0, 0x1.ac64888dd3fe1p-4, 0x1.ac648af132abdp-4},
    {GD_OP_lgamma, 0x1.204ae16807200p+0, 0, -0x1.ef56bcef3757bp-5, -0x1.ef56c448ca6e5p-5},
    {GD_OP_lgamma, 0x1.197e599ff3612p+0, 0, -0x1.971c512a4c872p-5, -0x1.971c564293271p-5},
    {GD_OP_lgamma, 0x1.0cbf56a347cb2p+1, 0, 0x1.7297d0a71aec5p-5, 0x1.7297bcd9f9a1fp-5},
    {GD_OP_lgamma, 0x1.65faa65f6b231p-504, 0, 0x1.5d02c926f541dp+8, NAN},
    {GD_OP_lgamma, 0x1.462b2ee389ecdp+14, 0, 0x1.6cbe0ad95b987p+17, 0x1.6cbe09be76620p+17},
    {GD_OP_lgamma, 0x1.53fb15c9ac873p+80, 0, 0x1.22c40ec826fb1p+86, 0x1.22c40ef77689fp+86},
    {GD_OP_lgamma, 0x1.2000000000000p+0, 0, -0x1.ebb5bd9a570d1p-5, -0x1.ebb5bd9a570d1p-5},
    {GD_OP_lgamma, 0x1.e000000000000p+0, 0, -0x1.8688de1676deap-5, -0x1.8688de1676deap-5},
    {GD_OP_lgamma, 0x1.1000000000000p+1, 0, 0x1.d92b302b074fbp-5, 0x1.d92b302b074fbp-5},
    {GD_OP_lgamma, 0x1.c000000000000p-1, 0, 0x1.5fad6139c1203p-4, 0x1.5fad6139c1203p-4},
    {GD_OP_lgamma, 0x1.f2f5c7a1a488ep-961, 0, 0x1.4cb93a4e7b50dp+9, NAN},
    {GD_OP_lgamma, 0x1.7a712f7482283p+996, 0, 0x1.fdd6288c1bd3ap+1005, NAN},
    {GD_OP_lgamma, 0x1.fffffffeed1f4p+2, 0, 0x1.10ce1f31c7bbep+3, 0x1.10ce1f32dcc30p+3},
    {GD_OP_lgamma, 0x1.999999999999ap-5, 0, 0x1.7c043bd125597p+1, 0x1.7c043bb0596eap+1},
    {GD_OP_lgamma, 0x1.0000000000000p-1, 0, 0x1.250d048e7a1bdp-1, 0x1.250d048e7a1bdp-1},
    {GD_OP_lgamma, 0x1.a666666666666p+1, 0, 0x1.f964fc1bf8d41p-1, 0x1.f964fa741bd3bp-1},
    {GD_OP_lgamma, 0x1.fffffffffdcd1p-1, 0, 0x1.44efb432d1310p-41, 0x0.0p+0},
    {GD_OP_lgamma, 0x1.00000000000e1p+1, 0, 0x1.7c8182c43a3e6p-45, 0x0.0p+0},
    {GD_OP_polygamma, 0x1.0c9dd90cf8172p-2, 0, -0x1.019863f6870cap+2, -0x1.01986307d94b3p+2},
    {GD_OP_polygamma, 0x1.cd70c844aea5fp-2, 0, -0x1.1d6b77f185496p+1, -0x1.1d6b782431124p+1},
    {GD_OP_polygamma, 0x1.04dd8c43725d2p-1, 0, -0x1.ead83a4caf532p+0, -0x1.ead83aeddac9fp+0},
    {GD_OP_polygamma, 0x1.d48b00f25fb25p+0, 0, 0x1.3a6a2ba88036dp-2, 0x1.3a6a28ed0e2f8p-2},
    {GD_OP_polygamma, 0x1.3f22d47661d06p+1, 0, 0x1.6651a172278dfp-1, 0x1.6651a08932e80p-1},
    {GD_OP_polygamma, 0x1.1830eb2cdb124p+1, 0, 0x1.13707d13cdebdp-1, 0x1.13707efab060ap-1},
    {GD_OP_polygamma, 0x1.eeeab4fc0ce7cp+0, 0, 0x1.83e9f43fd02f3p-2, 0x1.83e9f1993f229p-2},
    {GD_OP_polygamma, 0x1.bbeff524cd7f6p+3, 0, 0x1.4bf6f198f467ap+1, 0x1.4bf6f1da7cf6bp+1},
    {GD_OP_polygamma, 0x1.3e779a8b37254p+2, 0, 0x1.80349f3b931b2p+0, 0x1.80349ebfac9a0p+0},
    {GD_OP_polygamma, 0x1.15ea82b4cdfbfp+2, 0, 0x1.59514f690f1e9p+0, 0x1.59514eade0fa9p+0},
    {GD_OP_polygamma, 0x1.316a218bcb8a9p+3, 0, 0x1.19efdd3d59099p+1, 0x1.19efdd70b09abp+1},
    {GD_OP_polygamma, 0x1.80aec136e8dbap+1, 0, 0x1.d98af7c8ce092p-1, 0x1.d98af905d09b2p-1},
    {GD_OP_polygamma, 0x1.bead3593f1cb2p-27, 0, -0x1.2570316004cb2p+26, -0x1.2570311908799p+26},
    {GD_OP_polygamma, 0x1.eb33333333333p+4, 0, 0x1.b435a930d586dp+1, 0x1.b435a96714ae8p+1},
    {GD_OP_polygamma, 0x1.34a0000000000p+10, 0, 0x1.c78d93f4064c4p+2, 0x1.c78d93f4064c4p+2},
    {GD_OP_polygamma, 0x1.fffe5c91d14e4p+2, 0, 0x1.02001a8afe753p+1, 0x1.02001a642a804p+1},
    {GD_OP_polygamma, 0x1.0000d1b71758ep+3, 0, 0x1.0200f9e8e8087p+1, 0x1.0200fa0fbbb9bp+1},
    {GD_OP_polygamma, 0x1.7fff2e48e8a72p+3, 0, 0x1.38a8da693a66cp+1, 0x1.38a8da4fe25f3p+1},
    {GD_OP_polygamma, 0x1.8000d1b71758ep+3, 0, 0x1.38a96c354c5f1p+1, 0x1.38a96c4ea449cp+1},
    {GD_OP_polygamma, 0x1.5af1d78b58c40p+66, 0, 0x1.7069e2aa2aa5bp+5, 0x1.7069e2acdb3f2p+5},
    {GD_OP_polygamma, 0x1.762b6ae7d566dp+0, 0, -0x1.04f02a764ee0ap-15, -0x1.056056b1227cap-15},
    {GD_OP_polygamma, 0x1.762d864b083c1p+0, 0, 0x1.4e97ef087f496p-28, -0x1.9d8e3ce338b8cp-27},
    {GD_OP_polygamma, 0x1.599999999999ap+0, 0, -0x1.d2a62e0927793p-4, -0x1.d2a6272447ae5p-4},
    {GD_OP_polygamma, 0x1.947ae147ae148p+0, 0, 0x1.bd629768cb010p-4, 0x1.bd62a17693474p-4},
    {GD_OP_polygamma, -0x1.8000000000000p-1, 0, -0x1.727287dcf04dbp+1, -0x1.727287dcf04dbp+1},
    {GD_OP_polygamma, -0x1.2000000000000p+1, 0, 0x1.0a263badf8e6ep+2, 0x1.0a263badf8e6ep+2},
    {GD_OP_polygamma, 0x1.734a37e335bf1p-5, 1, 0x1.e8587c8c091b3p+8, 0x1.e8587c4088b3dp+8},
    {GD_OP_polygamma, 0x1.0a1b5a3551fe1p-1, 1, 0x1.27b88bbb19447p+2, 0x1.27b88c1f631c3p+2},
    {GD_OP_polygamma, 0x1.e2dc6bd271372p-2, 1, 0x1.5d342cf7f08f8p+2, 0x1.5d342cbf25f4ap+2},
    {GD_OP_polygamma, 0x1.3018a1611b38cp+1, 1, 0x1.0b0757e2bba26p-1, 0x1.0b07573942a17p-1},
    {GD_OP_polygamma, 0x1.f19f752d3c35bp+0, 1, 0x1.563d287fa0a7dp-1, 0x1.563d27c8f8e78p-1},
    {GD_OP_polygamma, 0x1.c56bd235a97f2p+0, 1, 0x1.8137edccbbe0bp-1, 0x1.8137ee0742455p-1},
    {GD_OP_polygamma, 0x1.becca56ce63f6p+0, 1, 0x1.8892ead3d759cp-1, 0x1.8892ea2d6c0dbp-1},
    {GD_OP_polygamma, 0x1.562bc58437388p+2, 1, 0x1.a51a27c636884p-3, 0x1.a51a271f520f7p-3},
    {GD_OP_polygamma, 0x1.515c5dc17610ep+1, 1, 0x1.d74dd05b2e411p-2, 0x1.d74dcff2ddefcp-2},
    {GD_OP_polygamma, 0x1.2d9ba471c788ap+2, 1, 0x1.e3eaffbeef76dp-3, 0x1.e3eb00894d536p-3},
    {GD_OP_polygamma, 0x1.4eaaf64884994p+3, 1, 0x1.9af7c81031e25p-4, 0x1.9af7c86d8f9bep-4},
    {GD_OP_polygamma, 0x1.33a58439c9096p+2, 1, 0x1.d968f9501b6cap-3, 0x1.d968f9b27ca45p-3},
    {GD_OP_polygamma, 0x1.bead3593f1cb2p-27, 1, 0x1.505a01dc583cbp+52, 0x1.505a01399c721p+52},
    {GD_OP_polygamma, 0x1.eb33333333333p+4, 1, 0x1.0f3bc6d562a34p-5, 0x1.0f3bc66272479p-5},
    {GD_OP_polygamma, 0x1.34a0000000000p+10, 1, 0x1.a8de62e2781c2p-11, 0x1.a8de62e2781c2p-11},
    {GD_OP_polygamma, 0x1.fffe5c91d14e4p+2, 1, 0x1.10ab11300c294p-3, 0x1.10ab1182a386fp-3},
    {GD_OP_polygamma, 0x1.0000d1b71758ep+3, 1, 0x1.10a9361188bc6p-3, 0x1.10a935bef27e5p-3},
    {GD_OP_polygamma, 0x1.7fff2e48e8a72p+3, 1, 0x1.63f4027793ac0p-4, 0x1.63f402be02d44p-4},
    {GD_OP_polygamma, 0x1.8000d1b71758ep+3, 1, 0x1.63f26d47937a0p-4, 0x1.63f26d0124f22p-4},
    {GD_OP_polygamma, 0x1.5af1d78b58c40p+66, 1, 0x1.79ca10c924223p-67, 0x1.79ca104a1df3ap-67},
    {GD_OP_polygamma, -0x1.8000000000000p-1, 1, 0x1.2f9a09ba04438p+4, 0x1.2f9a09ba04438p+4},
    {GD_OP_polygamma, -0x1.a666666666666p+1, 1, 0x1.da2aec14d7996p+3, 0x1.da2af2f55727dp+3},
};

typedef struct special {
    gd_op_id op;
    double x, y, result;
} special;

static const special specials[] = {
    {GD_OP_pow, 0x0.0p+0, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x0.0p+0, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x0.0p+0, 0x1.0000000000000p+0, 0x0.0p+0},
    {GD_OP_pow, 0x0.0p+0, -0x1.0000000000000p+0, INFINITY},
    {GD_OP_pow, 0x0.0p+0, 0x1.0000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, 0x0.0p+0, -0x1.0000000000000p+1, INFINITY},
    {GD_OP_pow, 0x0.0p+0, 0x1.0000000000000p-1, 0x0.0p+0},
    {GD_OP_pow, 0x0.0p+0, INFINITY, 0x0.0p+0},
    {GD_OP_pow, 0x0.0p+0, -INFINITY, INFINITY},
    {GD_OP_pow, 0x0.0p+0, NAN, NAN},
    {GD_OP_pow, 0x0.0p+0, 0x1.8000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, 0x0.0p+0, -0x1.4000000000000p+1, INFINITY},
    {GD_OP_pow, -0x0.0p+0, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x0.0p+0, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x0.0p+0, 0x1.0000000000000p+0, -0x0.0p+0},
    {GD_OP_pow, -0x0.0p+0, -0x1.0000000000000p+0, -INFINITY},
    {GD_OP_pow, -0x0.0p+0, 0x1.0000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, -0x0.0p+0, -0x1.0000000000000p+1, INFINITY},
    {GD_OP_pow, -0x0.0p+0, 0x1.0000000000000p-1, 0x0.0p+0},
    {GD_OP_pow, -0x0.0p+0, INFINITY, 0x0.0p+0},
    {GD_OP_pow, -0x0.0p+0, -INFINITY, INFINITY},
    {GD_OP_pow, -0x0.0p+0, NAN, NAN},
    {GD_OP_pow, -0x0.0p+0, 0x1.8000000000000p+1, -0x0.0p+0},
    {GD_OP_pow, -0x0.0p+0, -0x1.4000000000000p+1, INFINITY},
    {GD_OP_pow, 0x1.0000000000000p+0, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, 0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, -0x1.0000000000000p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, 0x1.0000000000000p+1, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, -0x1.0000000000000p+1, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, 0x1.0000000000000p-1, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, INFINITY, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, -INFINITY, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, NAN, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, 0x1.8000000000000p+1, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+0, -0x1.4000000000000p+1, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, 0x1.0000000000000p+0, -0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, -0x1.0000000000000p+0, -0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, 0x1.0000000000000p+1, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, -0x1.0000000000000p+1, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, 0x1.0000000000000p-1, NAN},
    {GD_OP_pow, -0x1.0000000000000p+0, INFINITY, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, -INFINITY, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, NAN, NAN},
    {GD_OP_pow, -0x1.0000000000000p+0, 0x1.8000000000000p+1, -0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+0, -0x1.4000000000000p+1, NAN},
    {GD_OP_pow, 0x1.0000000000000p+1, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+1, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p+1, INFINITY, INFINITY},
    {GD_OP_pow, 0x1.0000000000000p+1, -INFINITY, 0x0.0p+0},
    {GD_OP_pow, 0x1.0000000000000p+1, NAN, NAN},
    {GD_OP_pow, -0x1.0000000000000p+1, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+1, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.0000000000000p+1, INFINITY, INFINITY},
    {GD_OP_pow, -0x1.0000000000000p+1, -INFINITY, 0x0.0p+0},
    {GD_OP_pow, -0x1.0000000000000p+1, NAN, NAN},
    {GD_OP_pow, 0x1.0000000000000p-1, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p-1, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.0000000000000p-1, INFINITY, 0x0.0p+0},
    {GD_OP_pow, 0x1.0000000000000p-1, -INFINITY, INFINITY},
    {GD_OP_pow, 0x1.0000000000000p-1, NAN, NAN},
    {GD_OP_pow, INFINITY, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, INFINITY, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, INFINITY, 0x1.0000000000000p+0, INFINITY},
    {GD_OP_pow, INFINITY, -0x1.0000000000000p+0, 0x0.0p+0},
    {GD_OP_pow, INFINITY, 0x1.0000000000000p+1, INFINITY},
    {GD_OP_pow, INFINITY, -0x1.0000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, INFINITY, 0x1.0000000000000p-1, INFINITY},
    {GD_OP_pow, INFINITY, INFINITY, INFINITY},
    {GD_OP_pow, INFINITY, -INFINITY, 0x0.0p+0},
    {GD_OP_pow, INFINITY, NAN, NAN},
    {GD_OP_pow, INFINITY, 0x1.8000000000000p+1, INFINITY},
    {GD_OP_pow, INFINITY, -0x1.4000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, -INFINITY, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -INFINITY, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -INFINITY, 0x1.0000000000000p+0, -INFINITY},
    {GD_OP_pow, -INFINITY, -0x1.0000000000000p+0, -0x0.0p+0},
    {GD_OP_pow, -INFINITY, 0x1.0000000000000p+1, INFINITY},
    {GD_OP_pow, -INFINITY, -0x1.0000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, -INFINITY, 0x1.0000000000000p-1, INFINITY},
    {GD_OP_pow, -INFINITY, INFINITY, INFINITY},
    {GD_OP_pow, -INFINITY, -INFINITY, 0x0.0p+0},
    {GD_OP_pow, -INFINITY, NAN, NAN},
    {GD_OP_pow, -INFINITY, 0x1.8000000000000p+1, -INFINITY},
    {GD_OP_pow, -INFINITY, -0x1.4000000000000p+1, 0x0.0p+0},
    {GD_OP_pow, NAN, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, NAN, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, NAN, 0x1.0000000000000p+0, NAN},
    {GD_OP_pow, NAN, -0x1.0000000000000p+0, NAN},
    {GD_OP_pow, NAN, 0x1.0000000000000p+1, NAN},
    {GD_OP_pow, NAN, -0x1.0000000000000p+1, NAN},
    {GD_OP_pow, NAN, 0x1.0000000000000p-1, NAN},
    {GD_OP_pow, NAN, INFINITY, NAN},
    {GD_OP_pow, NAN, -INFINITY, NAN},
    {GD_OP_pow, NAN, NAN, NAN},
    {GD_OP_pow, NAN, 0x1.8000000000000p+1, NAN},
    {GD_OP_pow, NAN, -0x1.4000000000000p+1, NAN},
    {GD_OP_pow, 0x1.8000000000000p+1, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.8000000000000p+1, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, 0x1.8000000000000p+1, INFINITY, INFINITY},
    {GD_OP_pow, 0x1.8000000000000p+1, -INFINITY, 0x0.0p+0},
    {GD_OP_pow, 0x1.8000000000000p+1, NAN, NAN},
    {GD_OP_pow, -0x1.4000000000000p+1, 0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.4000000000000p+1, -0x0.0p+0, 0x1.0000000000000p+0},
    {GD_OP_pow, -0x1.4000000000000p+1, INFINITY, INFINITY},
    {GD_OP_pow, -0x1.4000000000000p+1, -INFINITY, 0x0.0p+0},
    {GD_OP_pow, -0x1.4000000000000p+1, NAN, NAN},
    {GD_OP_log2, 0x0.0p+0, 0, -INFINITY},
    {GD_OP_log2, -0x0.0p+0, 0, -INFINITY},
    {GD_OP_log2, 0x1.0000000000000p+0, 0, 0x0.0p+0},
    {GD_OP_log2, -0x1.0000000000000p+0, 0, NAN},
    {GD_OP_log2, INFINITY, 0, INFINITY},
    {GD_OP_log2, -INFINITY, 0, NAN},
    {GD_OP_log2, NAN, 0, NAN},
    {GD_OP_log1p, 0x0.0p+0, 0, 0x0.0p+0},
    {GD_OP_log1p, -0x0.0p+0, 0, -0x0.0p+0},
    {GD_OP_log1p, -0x1.0000000000000p+0, 0, -INFINITY},
    {GD_OP_log1p, -0x1.0000000000000p+1, 0, NAN},
    {GD_OP_log1p, INFINITY, 0, INFINITY},
    {GD_OP_log1p, -INFINITY, 0, NAN},
    {GD_OP_log1p, NAN, 0, NAN},
    {GD_OP_expm1, 0x0.0p+0, 0, 0x0.0p+0},
    {GD_OP_expm1, -0x0.0p+0, 0, -0x0.0p+0},
    {GD_OP_expm1, INFINITY, 0, INFINITY},
    {GD_OP_expm1, -INFINITY, 0, -0x1.0000000000000p+0},
    {GD_OP_expm1, NAN, 0, NAN},
    {GD_OP_expm1, 0x1.f400000000000p+9, 0, INFINITY},
    {GD_OP_softplus, INFINITY, 0, INFINITY},
    {GD_OP_softplus, -INFINITY, 0, 0x0.0p+0},
    {GD_OP_softplus, NAN, 0, NAN},
    {GD_OP_erf, 0x0.0p+0, 0, 0x0.0p+0},
    {GD_OP_erf, -0x0.0p+0, 0, -0x0.0p+0},
    {GD_OP_erf, INFINITY, 0, 0x1.0000000000000p+0},
    {GD_OP_erf, -INFINITY, 0, -0x1.0000000000000p+0},
    {GD_OP_erf, NAN, 0, NAN},
    {GD_OP_erfc, 0x0.0p+0, 0, 0x1.0000000000000p+0},
    {GD_OP_erfc, INFINITY, 0, 0x0.0p+0},
    {GD_OP_erfc, -INFINITY, 0, 0x1.0000000000000p+1},
    {GD_OP_erfc, NAN, 0, NAN},
    {GD_OP_gelu, 0x0.0p+0, 0, 0x0.0p+0},
    {GD_OP_gelu, -0x0.0p+0, 0, -0x0.0p+0},
    {GD_OP_gelu, INFINITY, 0, INFINITY},
    {GD_OP_gelu, -INFINITY, 0, -0x0.0p+0},
    {GD_OP_gelu, NAN, 0, NAN},
    {GD_OP_log10, 0x0.0p+0, 0, -INFINITY},
    {GD_OP_log10, -0x0.0p+0, 0, -INFINITY},
    {GD_OP_log10, 0x1.0000000000000p+0, 0, 0x0.0p+0},
    {GD_OP_log10, -0x1.0000000000000p+0, 0, NAN},
    {GD_OP_log10, INFINITY, 0, INFINITY},
    {GD_OP_log10, -INFINITY, 0, NAN},
    {GD_OP_log10, NAN, 0, NAN},
    {GD_OP_polygamma, INFINITY, 0, INFINITY},
    {GD_OP_polygamma, INFINITY, 1, 0x0.0p+0},
    {GD_OP_polygamma, -INFINITY, 0, NAN},
    {GD_OP_polygamma, -INFINITY, 1, NAN},
    {GD_OP_polygamma, 0x0.0p+0, 0, NAN},
    {GD_OP_polygamma, -0x0.0p+0, 1, NAN},
    {GD_OP_polygamma, -0x1.8p+1, 0, NAN},
    {GD_OP_polygamma, -0x1.0p+1, 1, NAN},
    {GD_OP_polygamma, NAN, 0, NAN},
    {GD_OP_polygamma, NAN, 1, NAN},
    {GD_OP_lgamma, 0x0.0p+0, 0, INFINITY},
    {GD_OP_lgamma, -0x1.0p+1, 0, INFINITY},
    {GD_OP_lgamma, 0x1.0p+0, 0, 0x0.0p+0},
    {GD_OP_lgamma, 0x1.0p+1, 0, 0x0.0p+0},
    {GD_OP_lgamma, INFINITY, 0, INFINITY},
    {GD_OP_lgamma, -INFINITY, 0, INFINITY},
    {GD_OP_lgamma, NAN, 0, NAN},
};

static const gd_vec_table *const tables[] = {
    &gd__vec_base,
#ifdef GD_HAVE_AVX2
    &gd__vec_avx2,
#endif
#ifdef GD_HAVE_AVX512
    &gd__vec_avx512,
#endif
};

static bool runs_here(const gd_vec_table *table)
{
#ifdef GD_HAVE_AVX2
    if (table == &gd__vec_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#ifdef GD_HAVE_AVX512
    if (table == &gd__vec_avx512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
#endif
    return table == &gd__vec_base;
}

static double in_f64(const gd_vec_table *table, gd_op_id op, double x, double y)
{
    double out;
    table->map[op][GD_AS_F64](&out, &x, &y, NULL, 1, &y); /* y: the order of polygamma */
    return out;
}

static double in_f32(const gd_vec_table *table, gd_op_id op, double x, double y)
{
    float out, a = (float)x, b = (float)y;
    table->map[op][GD_AS_F32](&out, &a, &b, NULL, 1, &y);
    return (double)out;
}

/* How far apart in units of the last of `digits` binary digits, subnormal below 2^least. */
static double units(double got, double want, int digits, int least)
{
    int exponent;
    (void)frexp(want, &exponent);
    if (exponent - 1 < least) exponent = least + 1;
    return fabs(got - want) / ldexp(1, exponent - digits);
}

/* gelu loses a digit to its last product. */
static double bound(gd_op_id op) { return op == GD_OP_gelu ? 2.1 : op == GD_OP_polygamma ? 1.6 : 1.5; }

static void functions_are_within_their_bounds_of_the_true_values(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int i = 0; i < COUNT_OF(points) && runs_here(tables[t]); i++) {
            const point *p = &points[i];
            double got = in_f64(tables[t], p->op, p->x, p->y), far = units(got, p->of_f64, 53, -1022);
            if (got != p->of_f64 && !(far <= bound(p->op)))
                fail_msg("%s: %s(%a, %a) is %a, not %a: %g ULP", tables[t]->isa, gd__ops[p->op].name, p->x,
                         p->y, got, p->of_f64, far);
            if (isnan(p->of_f32)) continue;
            got = in_f32(tables[t], p->op, p->x, p->y);
            far = units(got, p->of_f32, 24, -126);
            if (got != (double)(float)p->of_f32 && !(far <= 1))
                fail_msg("%s: %s(%a, %a) in f32 is %a, not %a: %g ULP", tables[t]->isa, gd__ops[p->op].name,
                         p->x, p->y, got, p->of_f32, far);
        }
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void special_values_are_those_of_the_standard(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int i = 0; i < COUNT_OF(specials) && runs_here(tables[t]); i++) {
            const special *s = &specials[i];
            double wide = in_f64(tables[t], s->op, s->x, s->y), narrow = in_f32(tables[t], s->op, s->x, s->y);
            if (!same(wide, s->result) || !same(narrow, s->result))
                fail_msg("%s: %s(%g, %g) is %g, in f32 %g, not %g", tables[t]->isa, gd__ops[s->op].name, s->x,
                         s->y, wide, narrow, s->result);
        }
}

/* Mostly of order one; some huge, tiny, or special. */
static double any_number(uint64_t *seed)
{
    static const double some[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-310, 1e-40, 0.5, 3};
    double x = random_unit(seed) - 0.5;
    switch (random_below(seed, 6)) {
    case 0: return some[random_below(seed, COUNT_OF(some))];
    case 1: return ldexp(x, (int)random_below(seed, 2000) - 1000);
    case 2: return ldexp(x, (int)random_below(seed, 200) - 100);
    default: return x * 20;
    }
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    enum { N = 2003 };
    static double x[2][N], want[N], got[N];
    static float narrow[2][N];
    uint64_t seed = 5;
    for (int k = 0; k < 2 * GD_OP_COUNT; k++) {
        int op = k / 2, slope = k % 2; /* the operator, and its gradient in one pass */
        bool here = slope ? gd__has_slope((gd_op_id)op)
                          : gd__ops[op].kind == GD_KIND_MAP && gd__ops[op].inputs < 3 &&
                                gd__vec_base.map[op][GD_AS_F64];
        if (op == GD_OP_bessel_j) continue; /* of a whole number, and the same function everywhere */
        for (int i = 0; here && i < 2 * N; i++)
            narrow[i % 2][i / 2] = (float)(x[i % 2][i / 2] = any_number(&seed));
        for (int way = 0; here && way < 4; way++)
            for (int t = 0; t < COUNT_OF(tables) && runs_here(tables[t]); t++) {
                int wide = way % 2;
                const double setting[2] = {op == GD_OP_polygamma ? way / 2 : way < 2 ? 2.3 : -0.7, 5};
                memset(got, 0, sizeof got);
                gd_vec_fn fn = slope ? tables[t]->slopes[op][wide]
                                     : tables[t]->map[op][wide ? GD_AS_F64 : GD_AS_F32];
                fn(got, wide ? (void *)x[0] : narrow[0], wide ? (void *)x[1] : narrow[1], NULL, N, setting);
                if (!t) memcpy(want, got, sizeof want);
                for (int i = 0; i < N; i++) {
                    double a = wide ? want[i] : (double)((float *)want)[i],
                           b = wide ? got[i] : (double)((float *)got)[i];
                    if (!same(a, b))
                        fail_msg("%s(%a, %a) of f%d is %a, and %a with %s", gd__ops[op].name,
                                 wide ? x[0][i] : (double)narrow[0][i], wide ? x[1][i] : (double)narrow[1][i],
                                 wide ? 64 : 32, a, b, tables[t]->isa);
                }
            }
    }
}

/* Number 2 k and 2 k + 1 are those of block k of base/rng.h, whatever the instruction set and wherever a call begins. */
static void random_numbers_are_those_of_their_blocks(void **state)
{
    (void)state;
    enum { N = 701 };
    const uint64_t key = 0x123456789abcdef5, first = 0xfffffff0; /* blocks pass 2^32 */
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int way = 0; way < 5 && runs_here(tables[t]); way++) {
            int kind = way < 3 ? 0 : way - 2;
            double scale = way == 0 ? 0x1p53 : way == 1 ? 0x1p24 : 0x1p8, wide[N];
            float narrow[N];
            uint64_t bits[N];
            tables[t]->sources->random_f64(wide, key, first, N, kind, scale);
            tables[t]->sources->random_f32(narrow, key, first, N, kind, scale);
            tables[t]->sources->random_u64(bits, key, first, N);
            for (uint64_t i = 0; i < N; i++) {
                uint32_t w[4], v[4];
                double pair[2];
                gd__philox(key, first + i / 2, w);
                gd__philox(key, first + i, v);
                gd__random_pair(kind, scale, w, pair);
                if (!same(wide[i], pair[i % 2]) || narrow[i] != (float)pair[i % 2] ||
                    bits[i] != ((uint64_t)v[0] << 32 | v[1]))
                    fail_msg("%s: number %d of kind %d is %a, %a, not %a", tables[t]->isa, (int)i, kind,
                             wide[i], (double)narrow[i], pair[i % 2]);
            }
        }
}

/* Whatever number a call begins at. */
static void steps_are_first_plus_multiples(void **state)
{
    (void)state;
    enum { N = 333 };
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int n = 1; n <= N && runs_here(tables[t]); n += 83) {
            double wide[N];
            float narrow[N];
            tables[t]->sources->steps_f64(wide, 0.3, 0.7, 16384, n);
            tables[t]->sources->steps_f32(narrow, 0.3, 0.7, 16384, n);
            for (int i = 0; i < n; i++) {
                double want = 0.3 + (16384 + i) * 0.7;
                if (wide[i] != want || narrow[i] != (float)want)
                    fail_msg("%s: step %d is %a, not %a", tables[t]->isa, i, wide[i], want);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_within_their_bounds_of_the_true_values),
        cmocka_unit_test(special_values_are_those_of_the_standard),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(random_numbers_are_those_of_their_blocks),
        cmocka_unit_test(steps_are_first_plus_multiples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
