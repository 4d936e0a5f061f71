// tokenizer.js - the native Hugging Face tokenizers, timed for tokenizer.c: node tokenizer.js
// TOKENIZER TEXT... prints one line of numbers, in the order that tokenizer.c reads. One thread, as there.
// Needs npm's tokenizers 0.23 where node finds it: npm install --no-save tokenizers@0.23
process.env.TOKENIZERS_PARALLELISM = 'false'
const fs = require('fs')
const { Tokenizer } = require('tokenizers')

const now = () => process.hrtime.bigint()

async function timed(work) {
  const start = now()
  const result = await work()
  return [now() - start, result]
}

async function documents(tokenizer, texts) {
  const all = []
  for (const text of texts) {
    all.push(await tokenizer.encode(text, null, { addSpecialTokens: false }))
  }
  return all
}

async function main(file, paths) {
  const texts = paths.map((path) => fs.readFileSync(path, 'utf8'))
  const lines = texts.flatMap((text) => text.split(/(?<=\n)/))
  const [load, tokenizer] = await timed(() => Tokenizer.fromFile(file))
  const [first, encoded] = await timed(() => documents(tokenizer, texts))
  const [again] = await timed(() => documents(tokenizer, texts))
  const [byLine] = await timed(() => tokenizer.encodeBatch(lines, { addSpecialTokens: false }))
  let hash = 0x811c9dc5
  let n = 0
  for (const one of encoded) {
    for (const id of one.getIds()) {
      hash = Math.imul(hash ^ id, 0x01000193) >>> 0
      n++
    }
  }
  console.log(`${load} ${first} ${again} ${byLine} ${n} ${hash}`)
}

main(process.argv[2], process.argv.slice(3))
