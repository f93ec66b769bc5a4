/* Letters of the stroke font beyond ASCII: Latin with its accents, Greek, Cyrillic, common signs; see font.c.
 *
 * Few have their own strokes. Others look like one of them, are one with an accent (as Unicode composes them), a small one above or
 * below the line, or are replaced by several. */
#include "plot/letters.h"
#include "base/text/compose.h"

#include <stdlib.h>
#include <string.h>

typedef struct own_letter {
    uint16_t code;
    const char *strokes;
} own_letter;

/* clang-format off */
/* In the order of their numbers; strokes as in font.c. */
static const own_letter own[] = {
    /* ¡ */ {0x00A1, "0e 0e|0a 00"},
    /* ¢ */ {0x00A2, "(7c 7e 0e 04 74 76|42 4g"},
    /* £ */ {0x00A3, "(8g 8i 2i 28 04|04 84|0b 6b"},
    /* ¤ */ {0x00A4, "@27 77 7c 2c|05 27|95 77|0e 2c|9e 7c"},
    /* ¥ */ {0x00A5, "0i 5b ai|5b 54|1a 9a|17 97"},
    /* ¦ */ {0x00A6, "0i 0c|09 02"},
    /* § */ {0x00A7, "(7g 7i 1i 1d 7b 77 47|(3d 0d 09 77 72 02 04"},
    /* © */ {0x00A9, "@04 e4 ei 0i|(9d 9f 5f 57 97 99"},
    /* « */ {0x00AB, "4d 09 45|8d 49 85"},
    /* ¬ */ {0x00AC, "0b 8b 87"},
    /* ® */ {0x00AE, "@04 e4 ei 0i|57 5f|(5f 9f 9b 5b|7b 97"},
    /* ¯ */ {0x00AF, "0j 6j"},
    /* ° */ {0x00B0, "@0e 4e 4i 0i"},
    /* ± */ {0x00B1, "48 4g|0c 8c|05 85"},
    /* ¶ */ {0x00B6, "(5i 0i 0b 5b|5i 54|5i 9i 94"},
    /* · */ {0x00B7, "0a 0a"},
    /* » */ {0x00BB, "0d 49 05|4d 89 45"},
    /* ¿ */ {0x00BF, "4e 4e|4a 48|(48 04 00 60 63"},
    /* Æ */ {0x00C6, "04 7i ei|7i 74 e4|7b cb|28 78"},
    /* Ð */ {0x00D0, "24 2i|(2i bi b4 24|0b 6b"},
    /* × */ {0x00D7, "06 6c|0c 66"},
    /* Ø */ {0x00D8, "@04 a4 ai 0i|13 9j"},
    /* Þ */ {0x00DE, "04 0i|(0f 8f 87 07"},
    /* ß */ {0x00DF, "04 0f|(0f 0i 6i 6c 3c|(3c 8c 84 24"},
    /* æ */ {0x00E6, "@04 74 7e 0e|7e 74|79 e9|(e9 ee 7e 74 e4 e6"},
    /* ð */ {0x00F0, "@04 74 7e 0e|(79 7g 1i|2f 6i"},
    /* ÷ */ {0x00F7, "09 89|4d 4d|45 45"},
    /* ø */ {0x00F8, "@04 74 7e 0e|03 7f"},
    /* þ */ {0x00FE, "0i 00|@04 74 7e 0e"},
    /* ď */ {0x010F, "7i 74|@04 74 7e 0e|ai 9f"},
    /* Đ */ {0x0110, "24 2i|(2i bi b4 24|0b 6b"},
    /* đ */ {0x0111, "7i 74|@04 74 7e 0e|3g ag"},
    /* ģ */ {0x0123, "@04 74 7e 0e|(7e 70 00 02|5j 3g"},
    /* Ħ */ {0x0126, "1i 14|ai a4|1b ab|0f bf"},
    /* ħ */ {0x0127, "1i 14|(1b 1e 8e 84|0g 4g"},
    /* ı */ {0x0131, "04 0e"},
    /* ĸ */ {0x0138, "0e 04|6e 09|29 64"},
    /* Ľ */ {0x013D, "0i 04 84|5i 4e"},
    /* ľ */ {0x013E, "0i 04|3i 2f"},
    /* Ł */ {0x0141, "1i 14 84|09 5d"},
    /* ł */ {0x0142, "2i 24|09 4d"},
    /* Ŋ */ {0x014A, "04 0i 94 9i|(94 90 60"},
    /* ŋ */ {0x014B, "0e 04|(0b 0e 7e 74|(74 70 40"},
    /* Œ */ {0x0152, "(7i 0i 04 74|7i 74|7i ei|74 e4|7b cb"},
    /* œ */ {0x0153, "@04 74 7e 0e|79 e9|(e9 ee 7e 74 e4 e6"},
    /* ť */ {0x0165, "(2h 24 54|0e 5e|6i 5f"},
    /* Ŧ */ {0x0166, "0i ai|5i 54|2b 8b"},
    /* ŧ */ {0x0167, "(2h 24 54|0e 5e|09 49"},
    /* ſ */ {0x017F, "(5i 2i 2e 24"},
    /* Ə */ {0x018F, "0b ab|(0f 2i ai a4 04 0b"},
    /* ȷ */ {0x0237, "(2e 20 00"},
    /* ə */ {0x0259, "09 79|(0d 0e 7e 74 04 09"},
    /* Γ */ {0x0393, "04 0i 8i"},
    /* Δ */ {0x0394, "04 5i a4 04"},
    /* Θ */ {0x0398, "@04 a4 ai 0i|3b 7b"},
    /* Λ */ {0x039B, "04 5i a4"},
    /* Ξ */ {0x039E, "0i 8i|1b 7b|04 84"},
    /* Π */ {0x03A0, "04 0i 9i 94"},
    /* Σ */ {0x03A3, "9i 0i 5b 04 94"},
    /* Φ */ {0x03A6, "5i 54|@07 a7 af 0f"},
    /* Ψ */ {0x03A8, "5i 54|(0i 08 a8 ai"},
    /* Ω */ {0x03A9, "04 34|(34 06 0i ai a6 74|74 a4"},
    /* α */ {0x03B1, "(8e 54 04 0e 5e 84"},
    /* β */ {0x03B2, "00 0g|(0g 0i 7i 7c 3c|(3c 8c 84 04"},
    /* γ */ {0x03B3, "0e 44 8e|44 40"},
    /* δ */ {0x03B4, "@04 74 7d 0d|(6i 1i 2f 6c"},
    /* ε */ {0x03B5, "(7d 6e 0e 0a 4a|(4a 0a 04 74 75"},
    /* ζ */ {0x03B6, "0i 6i|(6i 0d 04 74 70 50"},
    /* η */ {0x03B7, "0e 04|(0b 0e 7e 70"},
    /* θ */ {0x03B8, "@04 74 7i 0i|0b 7b"},
    /* ι */ {0x03B9, "(0e 04 14 36"},
    /* κ */ {0x03BA, "0e 04|6e 09|29 64"},
    /* λ */ {0x03BB, "0i 1i 84|4b 04"},
    /* μ */ {0x03BC, "0e 00|(0e 04 74 77|7e 74"},
    /* ν */ {0x03BD, "0e 34 7e"},
    /* ξ */ {0x03BE, "7i 1i|(6i 0i 0c 5c|(5c 0c 04 74 70 50"},
    /* π */ {0x03C0, "0e 9e|2e 24|7e 74"},
    /* ρ */ {0x03C1, "00 08|@04 74 7e 0e"},
    /* ς */ {0x03C2, "(7d 7e 0e 04 74 70 40"},
    /* σ */ {0x03C3, "@04 74 7e 0e|4e 9e"},
    /* τ */ {0x03C4, "0e 7e|(3e 34 64"},
    /* υ */ {0x03C5, "(0e 04 74 7e"},
    /* φ */ {0x03C6, "@04 84 8e 0e|4i 40"},
    /* χ */ {0x03C7, "0e 70|7e 00"},
    /* ψ */ {0x03C8, "(0e 04 84 8e|4i 40"},
    /* ω */ {0x03C9, "(2e 04 54 5a|(5a 54 a4 8e"},
    /* Ђ */ {0x0402, "0i ai|3i 34|(3b ab a1 71"},
    /* Є */ {0x0404, "(9f 9i 0i 04 94 97|1b 6b"},
    /* Љ */ {0x0409, "(04 24 3i|3i 9i 94|(9b gb g4 94"},
    /* Њ */ {0x040A, "0i 04|9i 94|0b 9b|(9b gb g4 94"},
    /* Ћ */ {0x040B, "0i ai|3i 34|(3b ab a4"},
    /* Џ */ {0x040F, "0i 04 94 9i|54 51"},
    /* Б */ {0x0411, "8i 0i 04|(0b 8b 84 04"},
    /* Д */ {0x0414, "02 04 b4 b2|14 3i 9i 94"},
    /* Ж */ {0x0416, "6i 64|0i 6b c4|ci 6b 04"},
    /* З */ {0x0417, "(0g 0i 7i 7b 3b|(3b 8b 84 04 06"},
    /* И */ {0x0418, "0i 04 9i 94"},
    /* Л */ {0x041B, "(04 24 3i|3i 9i 94"},
    /* У */ {0x0423, "0i 5a|(ai 44 04"},
    /* Ц */ {0x0426, "0i 04 94 9i|94 a4 a1"},
    /* Ч */ {0x0427, "(0i 0a 9a|9i 94"},
    /* Ш */ {0x0428, "0i 04 c4 ci|6i 64"},
    /* Щ */ {0x0429, "0i 04 c4 ci|6i 64|c4 e4 e1"},
    /* Ъ */ {0x042A, "0i 3i 34|(3b bb b4 34"},
    /* Ы */ {0x042B, "0i 04|(0b 7b 74 04|bi b4"},
    /* Ь */ {0x042C, "0i 04|(0b 8b 84 04"},
    /* Э */ {0x042D, "(0f 0i 9i 94 04 07|3b 8b"},
    /* Ю */ {0x042E, "0i 04|0b 4b|@44 c4 ci 4i"},
    /* Я */ {0x042F, "9i 94|(9i 1i 1a 9a|5a 04"},
    /* б */ {0x0431, "@04 74 7d 0d|(0a 0h 2i 7i"},
    /* в */ {0x0432, "04 0e|(0e 6e 69 09|(09 79 74 04"},
    /* г */ {0x0433, "04 0e 6e"},
    /* д */ {0x0434, "02 04 94 92|14 2e 7e 74"},
    /* ж */ {0x0436, "5e 54|0e 59 a4|ae 59 04"},
    /* з */ {0x0437, "(0d 0e 6e 69 39|(39 79 74 04 05"},
    /* и */ {0x0438, "0e 04 7e 74"},
    /* л */ {0x043B, "(04 14 2e|2e 7e 74"},
    /* м */ {0x043C, "04 0e 47 8e 84"},
    /* н */ {0x043D, "0e 04|7e 74|09 79"},
    /* п */ {0x043F, "04 0e 7e 74"},
    /* т */ {0x0442, "0e 8e|4e 44"},
    /* ц */ {0x0446, "0e 04 74 7e|74 84 82"},
    /* ч */ {0x0447, "(0e 09 79|7e 74"},
    /* ш */ {0x0448, "0e 04 a4 ae|5e 54"},
    /* щ */ {0x0449, "0e 04 a4 ae|5e 54|a4 b4 b2"},
    /* ъ */ {0x044A, "0e 2e 24|(29 89 84 24"},
    /* ы */ {0x044B, "0e 04|(09 69 64 04|9e 94"},
    /* ь */ {0x044C, "0e 04|(09 79 74 04"},
    /* э */ {0x044D, "(0d 0e 7e 74 04 05|29 79"},
    /* ю */ {0x044E, "0e 04|09 39|@34 a4 ae 3e"},
    /* я */ {0x044F, "7e 74|(7e 0e 09 79|39 04"},
    /* ђ */ {0x0452, "1i 14|(1b 1e 8e 80 60|0g 4g"},
    /* є */ {0x0454, "(7d 7e 0e 04 74 75|09 59"},
    /* љ */ {0x0459, "(04 14 2e|2e 7e 74|(79 d9 d4 74"},
    /* њ */ {0x045A, "0e 04|7e 74|09 79|(79 d9 d4 74"},
    /* џ */ {0x045F, "0e 04 74 7e|44 42"},
    /* Ґ */ {0x0490, "04 0i 8i 8k"},
    /* ґ */ {0x0491, "04 0e 6e 6g"},
    /* – */ {0x2013, "09 89"},
    /* — */ {0x2014, "09 e9"},
    /* ‘ */ {0x2018, "(2i 0h 0f"},
    /* ’ */ {0x2019, "(1i 2h 0f"},
    /* ‚ */ {0x201A, "14 02"},
    /* “ */ {0x201C, "(2i 0h 0f|(6i 4h 4f"},
    /* ” */ {0x201D, "(1i 2h 0f|(5i 6h 4f"},
    /* „ */ {0x201E, "14 02|54 42"},
    /* † */ {0x2020, "4i 42|0e 8e"},
    /* ‡ */ {0x2021, "4i 42|0e 8e|07 87"},
    /* • */ {0x2022, "@19 49 4c 1c|2a 3b|2b 3a"},
    /* ‰ */ {0x2030, "@0c 4c 4i 0i|@64 a4 aa 6a|9i 14|@d4 h4 ha da"},
    /* ′ */ {0x2032, "2i 0f"},
    /* ″ */ {0x2033, "2i 0f|5i 3f"},
    /* ‹ */ {0x2039, "4d 09 45"},
    /* › */ {0x203A, "0d 49 05"},
    /* ⁄ */ {0x2044, "03 5i"},
    /* € */ {0x20AC, "(ag ai 3i 34 a4 a6|0c 8c|09 79"},
    /* ™ */ {0x2122, "0i 4i|2i 2c|6c 6i 8f ai ac"},
    /* ← */ {0x2190, "4d 09 45|09 c9"},
    /* ↑ */ {0x2191, "0e 4i 8e|4i 44"},
    /* → */ {0x2192, "8d c9 85|09 c9"},
    /* ↓ */ {0x2193, "08 44 88|4i 44"},
    /* ↔ */ {0x2194, "4d 09 45|ad e9 a5|09 e9"},
    /* ∂ */ {0x2202, "(1h 8j 8b 74 04 0c 7c"},
    /* ∇ */ {0x2207, "0i ai 54 0i"},
    /* ∈ */ {0x2208, "(9d 0d 05 95|09 79"},
    /* ∏ */ {0x220F, "0i 01|9i 91|0i 9i"},
    /* ∑ */ {0x2211, "9i 0i 69 01 91"},
    /* − */ {0x2212, "09 89"},
    /* √ */ {0x221A, "09 2a 54 8j dj"},
    /* ∝ */ {0x221D, "(ce 8d 45 05 0d 4d 85 c4"},
    /* ∞ */ {0x221E, "@06 66 6c 0c|@66 c6 cc 6c"},
    /* ∫ */ {0x222B, "(6h 5j 3i 32 10 01"},
    /* ≈ */ {0x2248, "(06 09 49 46 86 89|(0b 0e 4e 4b 8b 8e"},
    /* ≠ */ {0x2260, "0b 8b|07 87|24 6e"},
    /* ≡ */ {0x2261, "0d 8d|09 89|05 85"},
    /* ≤ */ {0x2264, "8g 0c 88|05 85"},
    /* ≥ */ {0x2265, "0g 8c 08|05 85"},
};

/* Pairs of a letter and what it is drawn as. */
static const char alike[] = "ΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXοoϑθϕφϵεϐβϱρϰκАAВBГΓЕEКKМMНHОOПΠРPСCТTФΦХXЅSІIЈJаaеeкκоoрpсcуyфφхxіiѕsјjћħΩΩKK∆Δµμ¸\314\247´\314\201¨\314\210˘\314\206ˇ\314\214˙\314\207˛\314\250˚\314\212˝\314\213∼~⋅·∙·‐-‑-\302\255-ℓl\302\240 \342\200\202 \342\200\203 \342\200\211 \342\200\257 \342\200\212 \342\200\207 \342\200\210 ";
static const char above_line[] = "⁰0¹1²2³3⁴4⁵5⁶6⁷7⁸8⁹9⁺+⁻−⁼=⁽(⁾)ⁿnⁱiªaºo";
static const char below_line[] = "₀0₁1₂2₃3₄4₅5₆6₇7₈8₉9₊+₋−₌=₍(₎)ₐaₑeₒoₓxₙnₘmₖkₗlₚpₛsₜt";

/* Pairs of a letter and what is under its accent. */
static const struct {
    gd_accent accent;
    const char *pairs;
} accents[] = {
    /* grave */ {{0x0300, GD_ACCENT_ABOVE, "18 44"}, "ÀAÈEÌIÒOÙUàaèeìıòoùuǛÜǜüǸNǹnЀЕЍИѐеѝиḔĒḕēṐŌṑōẀWẁwẦÂầâẰĂằăỀÊềêỒÔồôỜƠờơỪƯừưỲYỳy"},
    /* acute */ {{0x0301, GD_ACCENT_ABOVE, "58 24"}, "ÁAÉEÍIÓOÚUÝYáaéeíıóoúuýyĆCćcĹLĺlŃNńnŔRŕrŚSśsŹZźzǗÜǘüǴGǵgǺÅǻåǼÆǽæǾØǿø΅¨ΆΑΈΕΉΗΊΙΌΟΎΥΏΩΐϊάαέεήηίιΰϋόούυώωϓϒЃГЌКѓгќкḈÇḉçḖĒḗēḮÏḯïḰKḱkḾMḿmṌÕṍõṒŌṓōṔPṕpṸŨṹũẂWẃwẤÂấâẮĂắăẾÊếêỐÔốôỚƠớơỨƯứư"},
    /* circumflex */ {{0x0302, GD_ACCENT_ABOVE, "04 38 64"}, "ÂAÊEÎIÔOÛUâaêeîıôoûuĈCĉcĜGĝgĤHĥhĴJĵȷŜSŝsŴWŵwŶYŷyẐZẑzẬẠậạỆẸệẹỘỌộọ"},
    /* tilde */ {{0x0303, GD_ACCENT_ABOVE, "(05 18 36 54 67"}, "ÃAÑNÕOãañnõoĨIĩıŨUũuṼVṽvẪÂẫâẴĂẵăẼEẽeỄÊễêỖÔỗôỠƠỡơỮƯữưỸYỹy"},
    /* macron */ {{0x0304, GD_ACCENT_ABOVE, "06 66"}, "ĀAāaĒEēeĪIīıŌOōoŪUūuǕÜǖüǞÄǟäǠȦǡȧǢÆǣæǬǪǭǫȪÖȫöȬÕȭõȰȮȱȯȲYȳyḠGḡgḸḶḹḷṜṚṝṛ"},
    /* breve */ {{0x0306, GD_ACCENT_ABOVE, "(08 14 54 68"}, "ĂAăaĔEĕeĞGğgĬIĭıŎOŏoŬUŭuЎУЙИйиўуḜȨḝȩẶẠặạ"},
    /* dot */ {{0x0307, GD_ACCENT_ABOVE, "36 36"}, "ĊCċcĖEėeĠGġgİIŻZżzȦAȧaȮOȯoḂBḃbḊDḋdḞFḟfḢHḣhṀMṁmṄNṅnṖPṗpṘRṙrṠSṡsṤŚṥśṦŠṧšṨṢṩṣṪTṫtẆWẇwẊXẋxẎYẏyẛſ"},
    /* two dots */ {{0x0308, GD_ACCENT_ABOVE, "16 16|56 56"}, "ÄAËEÏIÖOÜUäaëeïıöoüuÿyŸYΪΙΫΥϊιϋυϔϒЁЕЇІёеїıḦHḧhṎÕṏõṺŪṻūẄWẅwẌXẍxẗt"},
    /* hook */ {{0x0309, GD_ACCENT_ABOVE, "(18 5a 57 34"}, "ẢAảaẨÂẩâẲĂẳăẺEẻeỂÊểêỈIỉıỎOỏoỔÔổôỞƠởơỦUủuỬƯửưỶYỷy"},
    /* ring */ {{0x030A, GD_ACCENT_ABOVE, "@14 54 58 18"}, "ÅAåaŮUůuẘwẙy"},
    /* two acutes */ {{0x030B, GD_ACCENT_ABOVE, "38 04|78 44"}, "ŐOőoŰUűu"},
    /* caron */ {{0x030C, GD_ACCENT_ABOVE, "08 34 68"}, "ČCčcĎDĚEěeŇNňnŘRřrŠSšsŤTŽZžzǍAǎaǏIǐıǑOǒoǓUǔuǙÜǚüǦGǧgǨKǩkǮƷǯʒǰȷȞHȟh"},
    /* horn */ {{0x031B, GD_ACCENT_RIGHT, "(04 26 28"}, "ƠOơoƯUưu"},
    /* dot below */ {{0x0323, GD_ACCENT_BELOW, "32 32"}, "ḄBḅbḌDḍdḤHḥhḲKḳkḶLḷlṂMṃmṆNṇnṚRṛrṢSṣsṬTṭtṾVṿvẈWẉwẒZẓzẠAạaẸEẹeỊIịiỌOọoỢƠợơỤUụuỰƯựưỴYỵy"},
    /* comma below */ {{0x0326, GD_ACCENT_BELOW, "42 20"}, "ȘSșsȚTțt"},
    /* cedilla */ {{0x0327, GD_ACCENT_BELOW, "(34 52 50 10"}, "ÇCçcĢGĶKķkĻLļlŅNņnŖRŗrŞSşsŢTţtȨEȩeḐDḑdḨHḩh"},
    /* ogonek */ {{0x0328, GD_ACCENT_BELOW, "(54 31 40 60"}, "ĄAąaĘEęeĮIįiŲUųuǪOǫo"},
    /* line below */ {{0x0331, GD_ACCENT_BELOW, "02 62"}, "ḆBḇbḎDḏdḴKḵkḺLḻlṈNṉnṞRṟrṮTṯtẔZẕzẖh"},
};

/* A letter and its replacement. */
static const struct {
    const char *letter, *text;
} words[] = {
    {"¼", "¹⁄₄"},
    {"½", "¹⁄₂"},
    {"¾", "³⁄₄"},
    {"⅓", "¹⁄₃"},
    {"⅔", "²⁄₃"},
    {"⅛", "¹⁄₈"},
    {"…", "..."},
    {"Ĳ", "IJ"},
    {"ĳ", "ij"},
    {"ŉ", "’n"},
    {"Ŀ", "L·"},
    {"ŀ", "l·"},
    {"℃", "°C"},
    {"№", "No"},
    {"Ǆ", "DŽ"},
    {"ǅ", "Dž"},
    {"ǆ", "dž"},
    {"Ǉ", "LJ"},
    {"ǈ", "Lj"},
    {"ǉ", "lj"},
    {"Ǌ", "NJ"},
    {"ǋ", "Nj"},
    {"ǌ", "nj"},
    {"ﬁ", "fi"},
    {"ﬂ", "fl"},
};
/* clang-format on */

uint32_t gd__letter_code(const char *utf8, size_t length)
{
    const unsigned char *s = (const unsigned char *)utf8;
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = length >= 1 && length <= 4 ? s[0] & first[length] : 0xFFFD;
    for (size_t i = 1; i < length && length <= 4; i++) code = code << 6 | (s[i] & 0x3F);
    return code;
}

/* The second member of a letter's pair; 0: it has none. */
static uint32_t find_pair(const char *pairs, uint32_t code)
{
    for (const char *s = pairs; *s;) {
        size_t length = gd__utf8_length(s), other = gd__utf8_length(s + length);
        if (gd__letter_code(s, length) == code) return gd__letter_code(s + length, other);
        s += length + other;
    }
    return 0;
}

static int compare_codes(const void *a, const void *b)
{
    return *(const uint32_t *)a < ((const own_letter *)b)->code   ? -1
           : *(const uint32_t *)a > ((const own_letter *)b)->code ? 1
                                                                  : 0;
}

const gd_accent *gd__letter_accent(uint32_t code)
{
    for (size_t i = 0; i < sizeof accents / sizeof *accents; i++)
        if (accents[i].accent.code == code) return &accents[i].accent;
    return NULL;
}

static bool find_accented(uint32_t code, gd_letter *out)
{
    for (size_t i = 0; i < sizeof accents / sizeof *accents; i++) {
        uint32_t base = find_pair(accents[i].pairs, code);
        if (!base) continue;
        *out = (gd_letter){.base = base, .accent = &accents[i].accent};
        return true;
    }
    return false;
}

bool gd__letter_find(uint32_t code, gd_letter *out)
{
    const own_letter *found = bsearch(&code, own, sizeof own / sizeof *own, sizeof *own, compare_codes);
    *out = (gd_letter){.strokes = found ? found->strokes : NULL};
    if (found || find_accented(code, out)) return true;
    if ((out->base = find_pair(alike, code))) return true;
    if ((out->base = find_pair(above_line, code))) return (out->small = 1) != 0;
    if ((out->base = find_pair(below_line, code))) return (out->small = -1) != 0;
    for (size_t i = 0; i < sizeof words / sizeof *words && !out->text; i++)
        if (gd__letter_code(words[i].letter, strlen(words[i].letter)) == code) out->text = words[i].text;
    return out->text != NULL;
}
